"""A small classifier. Try: ebbtide capture examples/mlp.py:training_step -o step.json"""

import torch
from torch import nn


def training_step(batch_size=32):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = (torch.randn(batch_size, 784), torch.randint(0, 10, (batch_size,)))
    return model, nn.functional.cross_entropy, optimizer, batch
