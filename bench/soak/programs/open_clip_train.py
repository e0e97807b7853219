"""open_clip: contrastive training of a ViT and a text model, with gradient checkpointing."""

import open_clip
import torch

model = open_clip.create_model("ViT-B-32", pretrained=None, device="cuda", precision="amp")
model.set_grad_checkpointing()
loss_of = open_clip.ClipLoss()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda"):
        images, texts, scale = model(torch.rand(8, 3, 224, 224).cuda(), torch.randint(0, 49408, (8, 77)).cuda())
        loss = loss_of(images, texts, scale)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6)
