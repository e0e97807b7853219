"""Detectors of torchvision: boxes come from the host, proposals from skipped kernels."""

import torch
from torchvision.models import detection

for name in ("fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large"):
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = [torch.rand(3, 240, 320).cuda() for _ in range(2)]
    corners = torch.tensor([[10.0, 10, 60, 80], [100, 50, 200, 150]])
    targets = [{"boxes": corners.cuda(), "labels": torch.tensor([1, 3]).cuda(),
                "masks": torch.ones(2, 240, 320, dtype=torch.uint8).cuda()} for _ in images]
    sum(model(images, targets).values()).backward()
    optimizer.step()
    if not name.startswith("maskrcnn"):  # it pastes masks at coordinates that only kernels would know
        model.eval()
        with torch.no_grad():
            model(images)
    print(name, torch.cuda.max_memory_reserved() >> 20, "MiB")
