"""Optimizers that are not torch's: those of pytorch-optimizer, of timm, and a loop that updates by hand."""

import timm.optim
import torch
from pytorch_optimizer import Adan, Lion, load_optimizer

makers = [lambda p: Lion(p), lambda p: Adan(p), lambda p: load_optimizer("shampoo")(p), lambda p: timm.optim.create_optimizer_v2(p, opt="lamb", lr=1e-3),
          lambda p: timm.optim.create_optimizer_v2(p, opt="adafactor", lr=1e-3)]
for make in makers:
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    optimizer = make(model.parameters())
    for _ in range(3):
        torch.nn.functional.cross_entropy(model(torch.rand(16, 256).cuda()), torch.randint(0, 10, (16,)).cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
