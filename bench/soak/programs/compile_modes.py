"""torch.compile with tuning: max-autotune, and coordinate descent over Triton's settings."""

import torch
import torch._inductor.config

for options in ({"mode": "max-autotune"}, {"options": {"coordinate_descent_tuning": True}}, {"mode": "reduce-overhead"}):
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(model, **options)
    for _ in range(3):
        torch.nn.functional.cross_entropy(step(torch.rand(64, 256).cuda()), torch.randint(0, 10, (64,)).cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch._dynamo.reset()
