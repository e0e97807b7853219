"""Adam with 8-bit state of bitsandbytes, whose kernels are no operators of PyTorch's."""

import bitsandbytes
import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = bitsandbytes.optim.Adam8bit(model.parameters())
for _ in range(3):
    labels = torch.randint(0, 10, (32,)).cuda()
    torch.nn.functional.cross_entropy(model(torch.rand(32, 1024).cuda()), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
