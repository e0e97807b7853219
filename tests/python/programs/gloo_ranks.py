"""Trains on ranks of gloo with DDP and FSDP2, plainly and within budgets, and compares the bits: gloo_ranks.py 70%,50% OUT [compiled], started
by torchrun. OUT.RANK tells of each layout and budget whether they are the same, and the peaks; and what a whole step says.

`compiled`: the plain training is that of torch.compile(backend="aot_eager") instead of eager PyTorch. Both have the same bits on two ranks.
On more, gloo's sums depend on where in DDP's buckets a gradient lies, and DDP orders its buckets by when gradients come, which compiling changes."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn

import ebbtide
from ebbtide.compile.backend import reports

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = x + nn.functional.gelu(layer(x))
        return x

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(64, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def network(layout):
    torch.manual_seed(0)
    model = Network()
    if layout == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)

def train(layout, budget):
    model = network(layout)
    if budget == "plain" and "compiled" in sys.argv:
        model = torch.compile(model, backend="aot_eager")
    elif budget != "plain":
        model = torch.compile(model, backend="ebbtide", options={"budget": budget})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for i in range(3):
        g = torch.Generator().manual_seed(100 * i + rank)
        x, y = torch.randn(1024, 64, generator=g), torch.randint(0, 10, (1024,), generator=g)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    parameters = [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone() for p in model.parameters()]
    return losses, parameters, [(r["peak_bytes"], r["budget_bytes"], r["plain_peak_bytes"]) for r in reports()]

def same(a, b):
    return a[0] == b[0] and all(torch.equal(p, q) for p, q in zip(a[1], b[1], strict=True))

out = {}
for layout in ("ddp", "fsdp"):
    torch._dynamo.reset()
    plain = train(layout, "plain")
    for budget in sys.argv[1].split(","):
        torch._dynamo.reset()
        within = train(layout, budget)
        out[f"{layout} {budget}"] = [same(plain, within), within[2]]
for layout in ("ddp", "fsdp"):
    model, batch = network(layout), (torch.randn(4, 64), torch.zeros(4, dtype=torch.long))
    try:
        ebbtide.step(model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batch, budget="100%")
        out[f"step {layout}"] = "no error"
    except ebbtide.CaptureError as error:
        out[f"step {layout}"] = str(error)
with open(f"{sys.argv[2]}.{rank}", "w") as file:
    json.dump(out, file)
dist.destroy_process_group()
