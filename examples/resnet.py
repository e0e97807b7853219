"""torchvision's ResNet-18. Try: ebbtide capture examples/resnet.py:training_step -o resnet.json"""

import torch
import torchvision
from torch.nn import functional as F


def training_step(batch_size=16):
    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    batch = (torch.randn(batch_size, 3, 96, 96), torch.randint(0, 10, (batch_size,)))
    return model, F.cross_entropy, optimizer, batch
