"""accelerate's loop on the ranks that `accelerate launch` starts, three steps of two batches each."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2)
model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)])
loader = DataLoader(TensorDataset(torch.randn(64 * 6 * accelerator.num_processes, 512)), batch_size=64)
model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), loader)
for (batch,) in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch).square().mean())
        optimizer.step()
        optimizer.zero_grad()
accelerator.end_training()
