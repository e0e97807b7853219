"""accelerate's loop: gradients accumulated over two batches, clipped, in bfloat16, with a scheduler that it wraps."""

import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
data = torch.utils.data.TensorDataset(torch.rand(96, 256), torch.randint(0, 10, (96,)))
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=16), scheduler)
updates = 0
for inputs, labels in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            updates += 1
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.gather_for_metrics(loss)
assert updates == 3, updates
