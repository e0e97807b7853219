#!/usr/bin/env bash
# Builds the wheel as a user does, installs it in an environment of its own beside the project's torch, and goes each way in from
# there: the program, ebbtide.step, torch.compile by its entry point, ebbtide.budget.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'echo "wheel: FAILED"' ERR
environment=$(scripts/setup-python)
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

"$environment/bin/python" -m venv "$folder/env"
"$folder/env/bin/pip" -q wheel --no-deps --wheel-dir "$folder" .
"$folder/env/bin/pip" -q install --no-deps "$folder"/ebbtide-*.whl
"$folder/env/bin/python" - "$packages" <<'END'
import sys, sysconfig
with open(sysconfig.get_paths()["purelib"] + "/beside.pth", "w") as file:
    file.write(sys.argv[1] + "\n")  # torch, last on the path
END
cd "$folder"
export XDG_CACHE_HOME=$folder/cache OMP_NUM_THREADS=1 PYTHONPATH=
"$folder/env/bin/ebbtide" estimate resnet50 --gpu rtx3060 -q >/dev/null
"$folder/env/bin/ebbtide" train mlp --batch-size 512 --widths 64,64,64,10 --budget 90% --steps 2 --check -q | grep "to the last bit"
"$folder/env/bin/ebbtide" verify mlp:64 --no-train -q | tail -1
"$folder/env/bin/python" -W ignore - <<'END'
import copy, torch
from torch import nn
import ebbtide
assert ebbtide.__file__.startswith(__import__("sys").prefix), ebbtide.__file__
torch.set_num_threads(1)
start = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())))
x, y = torch.randn(512, 64), torch.randn(512, 64)


def train(model, call, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(call(x), y).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


plain = copy.deepcopy(start)
expected = train(plain, plain)
compiled = copy.deepcopy(start)
assert all(map(torch.equal, train(compiled, torch.compile(compiled, backend="ebbtide", options={"budget": "70%"})), expected))
limited = copy.deepcopy(start)
with ebbtide.budget("1MiB") as budget:
    assert all(map(torch.equal, train(limited, limited), expected))
assert budget.report()["copied_out_bytes"] > 0
stepped = copy.deepcopy(start)
step = ebbtide.step(stepped, nn.functional.mse_loss, torch.optim.SGD(stepped.parameters(), lr=0.1), (x, y), budget="70%")
for _ in range(3):
    step(x, y)
assert all(map(torch.equal, stepped.parameters(), expected))
print("wheel: the program and all three ways in")
END
