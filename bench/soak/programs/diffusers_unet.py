"""diffusers: one step of denoising training, with time steps that are drawn on the device."""

import torch
from diffusers import DDPMScheduler, UNet2DModel

model = UNet2DModel(sample_size=32, block_out_channels=(32, 64), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                    up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8).cuda()
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    images = torch.rand(4, 3, 32, 32).cuda()
    noise = torch.randn_like(images)
    steps = torch.randint(0, 1000, (4,), device="cuda").long()
    torch.nn.functional.mse_loss(model(scheduler.add_noise(images, noise, steps), steps).sample, noise).backward()
    optimizer.step()
    optimizer.zero_grad()
