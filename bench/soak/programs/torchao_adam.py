"""Adam with 8-bit state of torchao: tensors of a class of its own."""

import torch
from torchao.optim import AdamW8bit

model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = AdamW8bit(model.parameters())
for _ in range(2):
    labels = torch.randint(0, 10, (32,)).cuda()
    torch.nn.functional.cross_entropy(model(torch.rand(32, 1024).cuda()), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
