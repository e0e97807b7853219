"""segmentation_models_pytorch: a U-Net with Dice loss, whose classes are found in the mask."""

import segmentation_models_pytorch as smp
import torch

model = smp.Unet("resnet18", encoder_weights=None, classes=3).cuda()
loss_of = smp.losses.DiceLoss(mode="multiclass", classes=3)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    masks = torch.randint(0, 3, (2, 96, 96)).cuda()
    out = model(torch.rand(2, 3, 96, 96).cuda())
    loss = loss_of(out, masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    counts = smp.metrics.get_stats(out.argmax(1), masks, mode="multiclass", num_classes=3)
    print(float(smp.metrics.iou_score(*counts, reduction="micro")))
