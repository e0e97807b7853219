"""MONAI: a 3D U-Net, DiceCE loss, sliding-window inference."""

import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet

model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2)).cuda()
loss_of, metric = DiceCELoss(to_onehot_y=True, softmax=True), DiceMetric()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    labels = torch.randint(0, 2, (2, 1, 32, 32, 32)).cuda()
    optimizer.zero_grad()
    loss_of(model(torch.rand(2, 1, 32, 32, 32).cuda()), labels).backward()
    optimizer.step()
with torch.no_grad():
    out = sliding_window_inference(torch.rand(1, 1, 48, 48, 48).cuda(), (32, 32, 32), 2, model)
    metric(out.argmax(1, keepdim=True), torch.ones(1, 1, 48, 48, 48).cuda())
    print(metric.aggregate().item())
