"""torchvision: semantic segmentation with an auxiliary loss, and a confusion matrix that is counted on the device."""

import torch
from torchvision.models import segmentation

model = segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=5, aux_loss=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    images, labels = torch.rand(2, 3, 96, 96).cuda(), torch.randint(0, 5, (2, 96, 96)).cuda()
    out = model(images)
    loss = sum(torch.nn.functional.cross_entropy(each, labels, ignore_index=255) for each in out.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept = (labels >= 0) & (labels < 5)
    counts = torch.bincount(5 * labels[kept] + out["out"].argmax(1)[kept], minlength=25).reshape(5, 5)
    assert counts.shape == (5, 5)
