"""Training within a budget on several ranks: real processes, gloo, the same bits as without Ebbtide on the same ranks."""

import json
import os
import subprocess
import sys

import pytest

JOB = r'''
import json, os, sys
import torch
import torch.distributed as dist
from torch import nn
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
    if budget:
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
    plain = train(layout, None)
    for budget in sys.argv[1].split(","):
        torch._dynamo.reset()
        within = train(layout, budget)
        out[f"{layout} {budget}"] = [same(plain, within), within[2]]
import ebbtide
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
'''


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "job.py").write_text(JOB)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", folder / "job.py", "70%,50%", folder / "out"]
    run = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("budget", ["70%", "50%"])
@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_compiled_training_on_ranks_has_the_same_bits_within_the_budget(outcomes, layout, budget):
    for outcome in outcomes:
        is_same, reports = outcome[f"{layout} {budget}"]
        assert is_same
        assert reports and all(peak <= limit < plain for peak, limit, plain in reports)


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_a_whole_step_on_ranks_is_refused_and_the_way_that_fits_named(outcomes, layout):
    for outcome in outcomes:
        said = outcome[f"step {layout}"]
        assert ("DistributedDataParallel" if layout == "ddp" else "DTensor") in said
        assert "torch.compile(model, backend='ebbtide')" in said
