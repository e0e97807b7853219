"""Estimates of a version of torch beside that version itself, on the phantom GPU.

    versions_bench.py PYTHON ...     Pythons of environments that have a wheel of Ebbtide and torch; default: this one

For each: what its allocator and its matrix products do, found by asking them; then trainings, captured by that torch and estimated as it would run
them (`--framework pytorch`, which is the version installed), beside `ebbtide dryrun` of the same. Fails where a peak differs by more than 2 %.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

LARGEST_ERROR = 0.02

PROBE = """
import json, torch
MiB = 1 << 20
torch.zeros(1, device="cuda")
found = {"torch": torch.__version__}

def alloc(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

segments = []
for size in (1, MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 10 * MiB + 1):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    x = alloc(size)
    segments.append((torch.cuda.memory_reserved() - before) // MiB)
    del x
found["segments, MiB"] = segments
torch.cuda.empty_cache()
a = torch.empty(256, 256, device="cuda")
before = torch.cuda.memory_allocated()
b = a @ a
del b
found["kept by a product"] = torch.cuda.memory_allocated() - before
del a
torch.cuda.empty_cache()
# Two free blocks of one size: that of the older segment has the higher address.
first, older = alloc(30 * MiB), alloc(30 * MiB)
del first
torch.cuda.empty_cache()
newer = alloc(30 * MiB)
addresses = older.data_ptr(), newer.data_ptr()
del older, newer
if addresses[1] < addresses[0]:
    found["of two free blocks"] = "the older" if alloc(30 * MiB).data_ptr() == addresses[0] else "the lower"
print("FOUND " + json.dumps(found))
"""
TRAININGS = """
import sys, torch
from torch import nn

def parts(name):
    if name == "mlp":
        model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())))
        return model, nn.functional.mse_loss, (torch.empty(512, 1024), torch.empty(512, 1024)), torch.optim.Adam
    if name == "resnet18":
        import torchvision
        return torchvision.models.resnet18(), nn.functional.cross_entropy, (torch.empty(16, 3, 224, 224), torch.zeros(16, dtype=torch.long)), torch.optim.Adam
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return model, nn.functional.mse_loss, (torch.empty(8, 256, 256), torch.empty(8, 256, 256)), torch.optim.AdamW

def made(name):
    model, loss, batch, optimizer = parts(name)
    return model, loss, optimizer(model.parameters()), batch

def mlp(): return made("mlp")
def resnet18(): return made("resnet18")
def transformer(): return made("transformer")

if __name__ == "__main__":
    model, loss_fn, batch, optimizer = parts(sys.argv[1])
    model = model.cuda()
    optimizer = optimizer(model.parameters())
    for _ in range(3):
        x, y = (part.cuda() for part in batch)
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        del x, y
"""


def main():
    worst = 0.0
    for python in map(pathlib.Path, sys.argv[1:] or [sys.executable]):
        program = python.parent / "ebbtide"
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "EBBTIDE_PYTHON")} | {"OMP_NUM_THREADS": "1"}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "probe.py").write_text(PROBE)
            (folder / "trainings.py").write_text(TRAININGS)

            def run(*words, folder=folder, program=program, environment=environment):
                return subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True)

            probe = run("dryrun", "--gpu", "rtx3090", "--", str(python), "probe.py")
            found = [line for line in probe.stdout.splitlines() if line.startswith("FOUND ")]
            print(found[0][6:] if found else f"{python}: {probe.stderr[-400:]}", flush=True)
            for training in ("mlp", "resnet18", "transformer"):
                dry = run("dryrun", "--gpu", "rtx3090", "--json", "--", str(python), "trainings.py", training)
                told = run("estimate", f"trainings.py:{training}", "--gpu", "rtx3090", "--json")
                if dry.returncode != 0 or told.returncode not in (0, 1):
                    print(f"  {training}: FAILED: {(dry.stderr + told.stderr).strip().splitlines()[-1:]}")
                    worst = 1.0
                    continue
                dry, told = json.loads(dry.stdout), json.loads(told.stdout)
                errors = [told[key] / dry[key] - 1 for key in ("peak_allocated_bytes", "peak_reserved_bytes")]
                worst = max(worst, *map(abs, errors))
                figures = [f"{key[5:-6]} {dry[key]:>12,} dry run {told[key]:>12,} estimate ({error:+.2%})"
                           for key, error in zip(("peak_allocated_bytes", "peak_reserved_bytes"), errors)]
                print(f"  {training:12} {told['framework_version']:13} {'  '.join(figures)}", flush=True)
    print(f"versions: largest difference {worst:.2%}")
    sys.exit(0 if worst <= LARGEST_ERROR else 1)


main()
