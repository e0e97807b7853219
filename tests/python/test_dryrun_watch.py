"""The watcher of `ebbtide dryrun` attaches whatever is imported first, and what it could not see is said."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from support.command_line import HAS_PHANTOM, PROGRAM

pytestmark = pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")

STEPS = """
import torch
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
"""


def run(*words, folder=None, flags=(), **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EBBTIDE_", "PYTORCH_", "COLUMNS"))}
    return subprocess.run([PROGRAM, "dryrun", *flags, "--", *map(str, words)], capture_output=True, text=True, cwd=folder,
                          env={**environment, "OMP_NUM_THREADS": "1", **variables}, stdin=subprocess.DEVNULL)


def result(*words, **options):
    done = run(*words, flags=("--json",), **options)
    assert done.stdout.startswith("{"), done.stderr
    return json.loads(done.stdout), done


# Ways to come to torch that have, or had, a way past the watcher.
WAYS = {
    "found and then imported": (["-c", "import importlib.util as u; u.find_spec('torch'); u.find_spec('torch')\n" + STEPS], {}),
    "lazily": (["-c", "def train():\n" + textwrap.indent(STEPS, "    ") + "\ntrain()"], {}),
    "past all finders": (
        ["-c", "import sys, importlib.machinery as m\nsys.meta_path[:] = [m.BuiltinImporter, m.FrozenImporter, m.PathFinder]\n"
         + STEPS], {}),
    "in a subprocess": (["-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STEPS!r}], check=True)"], {}),
    "isolated": (["-I", "-c", STEPS], {}),
    "as a module": (["-m", "trainer"], {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_steps_are_seen_however_torch_is_imported(way, tmp_path):
    (tmp_path / "trainer.py").write_text(STEPS)
    words, variables = WAYS[way]
    told, done = result(sys.executable, *words, folder=tmp_path, **variables)
    assert told["exit_code"] == 0, done.stderr
    assert (told["observed"], told["steps"], told["oom"]) == (True, 3, False)
    # weight, bias, their gradients and momentum, each rounded up to 512 bytes: 3 * (16384 + 512), and the batch.
    assert told["peak_allocated_bytes"] >= 3 * (16384 + 512)
    assert told["assumptions"] == []


def test_a_step_takes_time():
    told, done = result(sys.executable, "-c", STEPS)
    # At the least, one launch of 2.5 us for the product, its gradient and the update.
    assert told["step_time_ns"] >= 3 * 2500, done.stderr


def test_a_program_without_the_gpu():
    done = run(sys.executable, "-c", "print('hello')")
    assert "the GPU was never used" in done.stderr
    told, _ = result(sys.executable, "-c", "print('hello')")
    assert (told["observed"], told["peak_reserved_bytes"], told["steps"]) == (True, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_record_that_is_lost_is_said_to_be(number):
    code = "import os, signal, torch; torch.zeros(1 << 20, device='cuda')\n"
    if number == signal.SIGHUP:  # which may be ignored where the tests run in the background
        code += "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    code += f"os.kill(os.getpid(), {int(number)})"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 128 + number
    assert "the record is lost" in done.stderr and "never used" not in done.stderr
    told, _ = result(sys.executable, "-c", code)
    assert told["observed"] is False and len(told["lost_processes"]) == 1
    assert told["peak_reserved_bytes"] is told["total_bytes"] is told["steps"] is told["step_time_ns"] is None


def test_an_interrupt_writes_the_report(tmp_path):
    (tmp_path / "scratch").mkdir()
    code = STEPS + "print('ready', flush=True)\nimport time\ntime.sleep(60)\n"
    process = subprocess.Popen([PROGRAM, "dryrun", "-o", str(tmp_path / "result.json"), "--", sys.executable, "-c", code],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, "TMPDIR": str(tmp_path / "scratch")},
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert "peak reserved" in errors and "Traceback" not in errors
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["observed"], told["steps"], told["exit_code"]) == (True, 3, 130)
    assert os.listdir(tmp_path / "scratch") == []
    assert f"ebbtide-phantom-dryrun-{process.pid}" not in os.listdir("/dev/shm")


# A mutex that its owner takes again: native code that no signal gets out of.
STUCK = STEPS + """
import ctypes
print("ready", flush=True)
mutex = ctypes.create_string_buffer(64)
for _ in range(2):
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_program_whose_main_thread_stays_in_native_code(number, tmp_path):
    process = subprocess.Popen([PROGRAM, "dryrun", "-o", str(tmp_path / "result.json"), "--", sys.executable, "-c", STUCK],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    process.communicate()
    told = json.loads((tmp_path / "result.json").read_text())
    assert (told["observed"], told["steps"], told["exit_code"]) == (True, 3, 128 + number)


def test_a_program_that_goes_on_after_an_interrupt_goes_on():
    code = """
import os, signal, threading, torch
torch.zeros(1, device="cuda")
for _ in range(2):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("caught", flush=True)
before = signal.signal(signal.SIGINT, lambda *_: print("its own", flush=True))
os.kill(os.getpid(), signal.SIGINT)
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGTERM)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
import time
time.sleep(4)  # longer than the watcher has patience: nothing may come of what is over
print("the end", flush=True)
"""
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0 and done.stdout.splitlines() == ["caught", "caught", "its own", "child -15", "the end"], done.stderr


UPDATES_BY_HAND = """
import torch
w = torch.randn(256, 256, device="cuda", requires_grad=True)
for step in range(4):
    for part in range(2):  # two passes for one update
        (torch.randn(32, 256, device="cuda") @ w).square().mean().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
"""


def test_steps_without_an_optimizer():
    told, done = result(sys.executable, "-c", UPDATES_BY_HAND)
    assert told["steps"] == 4, done.stderr
    assert told["breakdown"]["Parameter"] == 256 * 256 * 4


EMA = """
import copy, torch
model = torch.nn.Linear(512, 512, bias=False).cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(4, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


ROUNDS = """
import torch

def model():
    return torch.nn.Linear(64, 64, device="cuda")

def update(one, optimizer):
    one(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

def train(steps):
    one = model()
    optimizer = torch.optim.Adam(one.parameters())
    for _ in range(steps):
        update(one, optimizer)

train(2)
train(3)  # another optimizer, when the first is gone: 5
left, right = model(), model()
of_left, of_right = torch.optim.Adam(left.parameters()), torch.optim.Adam(right.parameters())
for step in range(4):  # two that take turns are one step: 9
    update(left, of_left)
    if step % 2:
        update(right, of_right)
del left, right, of_left, of_right
one = model()
optimizer = torch.optim.LBFGS(one.parameters(), max_iter=3)
x = torch.randn(8, 64, device="cuda")
def closure():
    optimizer.zero_grad()
    loss = one(x).square().mean()
    loss.backward()
    return loss
for _ in range(2):  # each calls backward several times: 11
    optimizer.step(closure)
kept = []
for steps in (2, 3):  # trainings one after the other, whose optimizers stay: 16
    one = model()
    kept.append(torch.optim.Adam(one.parameters()))
    for _ in range(steps):
        update(one, kept[-1])
"""


def test_steps_of_several_optimizers():
    assert result(sys.executable, "-c", ROUNDS)[0]["steps"] == 16


def test_backward_passes_before_and_within_an_update_are_no_steps():
    first = ROUNDS[:ROUNDS.index("train(2)")] + ROUNDS[ROUNDS.index("one = model()\noptimizer = torch.optim.LBFGS"):ROUNDS.index("kept = []")]
    assert result(sys.executable, "-c", first)[0]["steps"] == 2
    traced = STEPS.replace("for _ in", "model = torch.compile(model, backend='aot_eager')\nfor _ in")
    assert result(sys.executable, "-c", traced)[0]["steps"] == 3


CAPTURED = """
import torch
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 64, device="cuda")
def step():
    optimizer.zero_grad(set_to_none=False)
    model(x).sum().backward()
    optimizer.step()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(4):
    graph.replay()
"""


def test_replays_of_a_captured_step_are_steps():
    told, done = result(sys.executable, "-c", CAPTURED)
    assert (told["exit_code"], told["steps"]) == (0, 5), done.stderr  # one before, none while it is captured
    steps = STEPS.replace("    optimizer.step()", "    update()")
    told, _ = result(sys.executable, "-c", steps.replace("for _ in", "update = torch.compile(optimizer.step, backend='aot_eager')\nfor _ in"))
    assert told["steps"] == 3


NOTEBOOK = """
import os, signal, sys, types
hooks = []
shell = types.SimpleNamespace(events=types.SimpleNamespace(register=lambda name, hook: hooks.append((name, hook))))
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
""" + STEPS + """
(name, hook), = hooks
assert name == "post_run_cell"
hook(None)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_notebook_s_cells_did_outlives_its_kernel():
    told, done = result(sys.executable, "-c", NOTEBOOK)
    assert (told["exit_code"], told["observed"], told["steps"]) == (137, True, 3), done.stderr


def test_copies_of_a_model_are_parameters():
    told, done = result(sys.executable, "-c", EMA)
    assert told["breakdown"]["Parameter"] == 2 * 512 * 512 * 4, done.stderr


GRAPHS = """
import torch
model = torch.nn.Linear(256, 256, device="cuda")
x = torch.randn(64, 256, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
model.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).sum().backward()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
graph.replay()
graph.replay()
end.record()
torch.cuda.synchronize()
once = torch.cuda.Event(enable_timing=True)
print("took", begin.elapsed_time(end))
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda").item()
except RuntimeError as error:
    print("refused", "captur" in str(error))
"""


def test_cuda_graphs_are_captured_and_replayed():
    done = run(sys.executable, "-c", GRAPHS)
    assert done.returncode == 0, done.stderr
    assert "not modelled" not in done.stderr
    words = done.stdout.split()
    assert words[0] == "took" and float(words[1]) > 0
    assert words[2:] == ["refused", "True"]
