"""From `pip install` of a wheel to the first answers, in an empty environment: a new venv, an empty HOME, nothing on PATH but the venv.

    install_bench.py [WHEEL] [--torch VERSION] [--python PYTHON] [--environment FOLDER]

Prints the wheel's size, the seconds from the start of `pip install` to the end of the first `ebbtide estimate` and of the first `ebbtide dryrun` of
a ResNet-18, and whether every command below, those of README.md among them, worked. Fails where one did not, or where the wheel exceeds 40 MB. Installing
torch is most of the time and depends on the network: it is told apart. --environment keeps what was installed there, and uses it again.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_WHEEL = 40e6
WAYS = ("step", "compile", "budget", "shared")

STEP = """
from torch import empty, nn, optim
def step():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(8)])
    batch = empty(4096, 1024), empty(4096, 1024)
    return model, nn.functional.mse_loss, optim.Adam(model.parameters()), batch
"""
RESNET = """
import torch, torchvision
model = torchvision.models.resnet18().cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x, y = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
# One way in, on one device: the numbers are those of plain PyTorch; on the phantom GPU, which computes none, it runs.
WAYS_IN = """
import copy, sys, torch
from torch import nn
import ebbtide
assert ebbtide.__file__.startswith(sys.prefix), ebbtide.__file__
way, device = sys.argv[1:]
share = "70%" if device == "cpu" else "95%"  # products on a GPU take 8 MiB beside these small tensors
torch.set_num_threads(1)
torch.manual_seed(0)
start = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh()))).to(device)
x, y = torch.randn(512, 64).to(device), torch.randn(512, 64).to(device)

def train(model, call, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(call(x), y).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]

def stepped(budget):
    model = copy.deepcopy(start)
    return model, ebbtide.step(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), (x, y), budget=budget, device=device)

def check(parameters):
    assert device == "cuda" or all(map(torch.equal, parameters, expected)), "other numbers than plain PyTorch"

plain = copy.deepcopy(start)
expected = train(plain, plain)
model = copy.deepcopy(start)
if way == "compile":
    check(train(model, torch.compile(model, backend="ebbtide", options={"budget": share})))
elif way == "budget":
    with ebbtide.budget("1MiB" if device == "cpu" else "64MiB") as budget:
        check(train(model, model))
    assert device == "cuda" or budget.report()["copied_out_bytes"] > 0
elif way == "step":
    model, step = stepped(share)
    for _ in range(3):
        step(x, y)
    check(model.parameters())
    step.close()
else:
    first, second = stepped(None)[1], stepped(None)[1]
    with ebbtide.Shared(capacity="64MiB") as gpu:
        gpu.add(first)
        gpu.add(second)
        gpu.run(iterations=3)
"""


def commands(python):
    """(what it is, words). Those of README.md, and the ways in from Python."""
    program = str(python.parent / "ebbtide")
    dryrun = [program, "dryrun", "--gpu", "rtx3090"]
    plan = [program, "plan", "resnet18", "--batch-size", "64", "--budget", "60%", "--gpu", "v100-16gb", "--no-swap"]
    return [
        ("models", [program, "models"]),
        ("gpus", [program, "gpus"]),
        ("inspect, a script", [program, "inspect", "train.py:step"]),
        ("inspect, built in", [program, "inspect", "resnet50", "--batch-size", "64", "--optimizer", "adam", "--device", "cuda", "--json"]),
        ("estimate, a script", [program, "estimate", "train.py:step", "--gpu", "a100-40gb", "-o", "report.html"]),
        ("capture", [program, "capture", "train.py:step", "-o", "step.json"]),
        ("fit", [program, "fit", "resnet50", "--optimizer", "adam"]),
        ("plan", [*plan, "-o", "plan.json", "-o", "plan.html"]),
        ("simulate", [program, "simulate", "resnet18", "--batch-size", "64", "--plan", "plan.json"]),
        ("share", [program, "share", "resnet18:32", "resnet18:32", "--gpu", "v100-16gb"]),
        ("train", [program, "train", "mlp", "--batch-size", "512", "--widths", "64,64,64,10", "--budget", "90%", "--steps", "2", "--check"]),
        ("dryrun --check race", [*dryrun, "--check", "race", "--stop-after-steps", "2", "-o", "dry.html", "--", str(python), "resnet.py"]),
        ("verify", [program, "verify", "mlp:64", "--no-train"]),
        *((f"Python: {way}", [str(python), "-W", "ignore", "ways_in.py", way, "cpu"]) for way in WAYS),
        *((f"Python, phantom GPU: {way}", [*dryrun, "--", str(python), "-W", "ignore", "ways_in.py", way, "cuda"]) for way in WAYS),
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", nargs="?", type=pathlib.Path)
    parser.add_argument("--torch", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--environment", type=pathlib.Path)
    arguments = parser.parse_args()
    ask = "import sys; print('cp%d%d' % sys.version_info[:2])"
    version = subprocess.run([arguments.python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    fitting = [p for p in sorted(ROOT.glob("dist/*.whl")) if f"-{version}-" in p.name or ("abi3" in p.name and version >= "cp312")]
    wheel = arguments.wheel.resolve() if arguments.wheel else (fitting[-1] if fitting else sys.exit("install_bench: no wheel in dist/: make wheel"))
    failed = [] if wheel.stat().st_size <= LARGEST_WHEEL else ["size"]
    print(f"{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, text in (("train.py", STEP), ("resnet.py", RESNET), ("ways_in.py", WAYS_IN)):
            (folder / file).write_text(text)
        (folder / "home").mkdir()
        place = arguments.environment.absolute() if arguments.environment else folder / "env"
        python = place / "bin" / "python"
        if not python.exists():
            subprocess.run([arguments.python, "-m", "venv", place], check=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("EBBTIDE", "PYTHON", "XDG", "LD_", "CUDA"))}
        environment |= {"HOME": str(folder / "home"), "PATH": str(place / "bin"), "OMP_NUM_THREADS": "1"}
        assert shutil.which("c++", path=environment["PATH"]) is None

        def run(words, log):
            with open(folder / log, "wb") as file:
                return subprocess.run(words, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT).returncode

        def say(what, code, seconds, log):
            lines = (folder / log).read_text(errors="replace").strip().splitlines()
            print(f"  {what:28} {seconds:7.1f} s  {'' if code == 0 else f'FAILED ({code}): ' + (lines[-1] if lines else '')}", flush=True)
            if code != 0:
                failed.append(what)

        pip = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
        begin = time.monotonic()
        code = run([*pip, str(wheel)], "pip.log")
        say("pip install of the wheel", code, time.monotonic() - begin, "pip.log")
        code = run([str(python.parent / "ebbtide"), "estimate", "resnet50", "--batch-size", "64", "--optimizer", "adam", "--gpu", "rtx3060"], "estimate.log")
        first_estimate = time.monotonic() - begin
        say("... to the first estimate", 0 if code in (0, 1) else code, first_estimate, "estimate.log")
        begin_torch = time.monotonic()
        code = run([*pip, f"torch=={arguments.torch}" if arguments.torch else "torch", "torchvision", "numpy"], "pip.log")
        torch_seconds = time.monotonic() - begin_torch
        say("pip install of torch", code, torch_seconds, "pip.log")
        begin_dryrun = time.monotonic()
        code = run([str(python.parent / "ebbtide"), "dryrun", "--gpu", "rtx3090", "--stop-after-steps", "3", "--", str(python), "resnet.py"], "dryrun.log")
        say("dryrun of a ResNet-18", code, time.monotonic() - begin_dryrun, "dryrun.log")
        print(f"  ... to the first dryrun      {first_estimate + time.monotonic() - begin_torch:7.1f} s, {torch_seconds:.1f} of them pip's for torch")
        text = (folder / "dryrun.log").read_text(errors="replace")
        if "values were not followed" in text or "not observed" in text:
            failed.append("dryrun was not followed")
            print(text)
        for what, words in commands(python):
            begin = time.monotonic()
            code = run(words, "command.log")
            say(what, code, time.monotonic() - begin, "command.log")
    print(f"install: {'FAILED: ' + ', '.join(failed) if failed else 'all worked'}")
    sys.exit(1 if failed else 0)


main()
