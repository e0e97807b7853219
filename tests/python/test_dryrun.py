"""`ebbtide dryrun`: a program keeps its words, streams, signals and exit code, and its memory is told exactly."""

import json
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import textwrap

import pytest
from support.browser import needs_chromium, rendered
from support.command_line import HAS_PHANTOM, PROGRAM, assert_refused, result_of, run

MIB = 1 << 20
CONTEXT = 365953024  # of profiles/a100-40gb.json
TOTAL = 42474471424

pytestmark = pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")


def dryrun(*words, folder=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EBBTIDE_", "PYTORCH_", "COLUMNS"))}
    environment = {**environment, "OMP_NUM_THREADS": "1", **options.pop("environment", {})}
    return subprocess.run([PROGRAM, "dryrun", *map(str, words)], capture_output=True, text=True, cwd=folder, env=environment,
                          stdin=options.pop("stdin", subprocess.DEVNULL) if "input" not in options else None, **options)


def python(folder, code, *flags, name="train.py", arguments=(), **options):
    """Runs a program under dryrun with --json: what it printed, and the result."""
    (folder / name).write_text(textwrap.dedent(code))
    done = dryrun("--json", *flags, "--", sys.executable, name, *arguments, folder=folder, **options)
    try:
        return done, json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.fail(f"{done.stdout}\n{done.stderr}")


# ---- The program's own words, streams and exit code


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_the_exit_code_is_the_program_s(code):
    assert dryrun("-q", "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_killed_program_ends_as_in_a_shell():
    assert dryrun("-q", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_words_behind_the_dashes_are_the_program_s():
    words = ["a b", "", "--json", "-o", "x.html", "--", "--gpu", "*", "$HOME"]
    done = dryrun("-q", "--", sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == words


def test_standard_streams_are_untouched():
    done = dryrun("-q", "--", "cat", "-", "/no/such/file", input="one\ntwo")
    assert done.stdout == "one\ntwo"
    assert done.stderr.count("\n") == 1 and "/no/such/file" in done.stderr
    assert done.returncode == 1


def test_the_summary_is_no_part_of_standard_output():
    done = dryrun("--", "echo", "data")
    assert done.stdout == "data\n"
    assert "the GPU was never used" in done.stderr


def test_with_json_the_program_s_output_goes_to_standard_error():
    done = dryrun("--json", "--", "sh", "-c", "echo data; exit 3")
    assert done.returncode == 3
    assert done.stderr == "data\n"
    result = json.loads(done.stdout)
    assert result["schema_version"] == 1 and result["command"] == "dryrun"
    assert result["exit_code"] == 3 and result["oom"] is False
    assert result["peak_reserved_bytes"] == result["peak_allocated_bytes"] == result["total_bytes"] == 0
    assert result["processes"] == []


@pytest.mark.parametrize(
    "words, parts",
    [
        ((), ("dryrun: expected -- and the program",)),
        (("python", "train.py"), ("python: expected -- before the program", "ebbtide dryrun -- python train.py")),
        (("--",), ("expected -- and the program",)),
        (("--gpu", "a100", "--", "true"), ('GPU "a100"', "did you mean", "a100-40gb")),
        (("--gpu", "none.json", "--", "true"), ("none.json",)),
        (("-o", "page.pdf", "--", "true"), ("-o page.pdf", ".html, .pickle, .json or .txt")),
        (("-o", "/no/such/folder/page.html", "--", "true"), ("/no/such/folder", "no such folder")),
        (("--check", "leaks", "--", "true"), ("--check: expected race, found leaks",)),
        (("--fail", "cudaMalloc@x", "--", "true"), ("--fail", "cudaMalloc@x")),
        (("--stop-after-steps", "0", "--", "true"), ("--stop-after-steps", "positive")),
        (("--jitter-us", "-1", "--", "true"), ("--jitter-us",)),
        (("--cuda", "11", "--", "true"), ("--cuda: expected 12 or 13, found 11",)),
        (("--no-such-flag", "--", "true"), ("--no-such-flag", "not a flag of dryrun")),
        (("--", "no-such-program"), ("no-such-program: no such program",)),
        (("--", "./none"), ("./none: no such program",)),
        (("--log", "/no/such/folder/log", "--", "true"), ("--log /no/such/folder/log",)),
    ],
)
def test_mistakes_are_one_line(words, parts):
    assert_refused(run("dryrun", *words), *parts)


def test_signals_reach_the_program(tmp_path):
    code = """
import signal, sys, time
def on(number, frame):
    print(signal.Signals(number).name, flush=True)
    sys.exit(40 + (number == signal.SIGTERM))
signal.signal(signal.SIGTERM, on)
signal.signal(signal.SIGUSR1, on)
print("ready", flush=True)
time.sleep(60)
"""
    for number, code_expected in ((signal.SIGTERM, 41), (signal.SIGUSR1, 40)):
        process = subprocess.Popen([PROGRAM, "dryrun", "-q", "--", sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate()
        assert out == signal.Signals(number).name + "\n"
        assert process.returncode == code_expected


def test_an_interrupt_is_the_program_s_to_handle():
    code = "import time\ntry:\n  print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('bye'); raise SystemExit(9)"
    # Shells start what runs in the background with interrupts ignored, and that is inherited.
    process = subprocess.Popen([PROGRAM, "dryrun", "-q", "--", sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "bye\n"
    assert process.returncode == 9


def test_the_user_s_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.was_here = __file__\n")
    code = "import sys; print(was_here); print('torch' in sys.modules, any('dryrun_site' in p for p in sys.path))"
    done = dryrun("-q", "--", sys.executable, "-c", code, environment={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'sitecustomize.py'}\nFalse False\n"


def test_the_libraries_are_of_the_generation_of_the_program_s_torch(tmp_path):
    """Found without importing torch, also where a script starts the Python."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    code = "import os; print(os.environ['EBBTIDE_DRYRUN_CUDA'], os.environ['LD_PRELOAD'].split(':')[1].split('/')[-2])"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c \"{code}\"\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for version, generation in (("12.4", "12"), ("13.2", "13")):
        (tmp_path / "torch" / "version.py").write_text(f"cuda: str = '{version}'\n")
        for words in ((sys.executable, "-c", code), (script,)):
            done = dryrun("-q", "--", *words, environment={"PYTHONPATH": str(tmp_path)})
            assert done.stdout.split()[0] == generation, done.stderr
        chosen = dryrun("-q", "--cuda", "12", "--", *words, environment={"PYTHONPATH": str(tmp_path)})
        assert chosen.stdout.split()[0] == "12"


# ---- A training: sizes that can be added up by hand

SIZE = 1 << 18  # floats in a parameter: 1 MiB
BATCH = 16
TRAIN = """
import json, torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1 << 18))
        self.register_buffer("scale", torch.ones(1 << 18))
    def forward(self, x):
        return torch.relu(x * self.weight)
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x = torch.empty(16, 1 << 18, device="cuda")
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(json.dumps([loss.item(), torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()]))
"""


def line_of(code, text):
    return next(number for number, line in enumerate(textwrap.dedent(code).splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    outputs = ["-o", "page.html", "-o", "snapshot.pickle", "-o", "result.json", "-o", "result.txt"]
    done, result = python(folder, TRAIN, *outputs)
    assert done.returncode == 0, done.stderr
    return folder, done, result


def test_peaks_are_torch_s_own(training):
    _, done, result = training
    loss, reserved, allocated = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("[")))
    assert loss == 1.0  # what is assumed of it, as kernels do not run
    assert result["peak_reserved_bytes"] == reserved
    assert result["peak_allocated_bytes"] == allocated
    assert result["total_bytes"] == reserved + CONTEXT + result["loaded_code_bytes"]  # nothing else took memory
    assert result["context_bytes"] == CONTEXT
    assert (result["gpu"], result["capacity_bytes"]) == ("a100-40gb", TOTAL)
    assert (result["exit_code"], result["oom"], result["ooms"]) == (0, False, [])
    assert (result["steps"], result["stopped_after_steps"]) == (3, False)
    assert (result["host_reads"], result["empty_host_reads"]) == (1, 1)
    assert result["not_modelled"] == {} and result["notes"] == []
    assert len(result["processes"]) == 1


def test_the_breakdown_adds_up(training):
    _, _, result = training
    breakdown = result["breakdown"]
    assert set(breakdown) == {"Parameter", "Buffer", "Optstate", "Other", "Gradient", "Activation", "Temp"}
    assert sum(breakdown.values()) == result["peak_allocated_bytes"]
    assert breakdown["Parameter"] == breakdown["Buffer"] == 4 * MIB  # four of 1 MiB
    assert breakdown["Optstate"] == 2 * 4 * MIB  # Adam's two moments; its step counters are on the host
    assert breakdown["Activation"] % (BATCH * MIB) in (0, 512)  # and the loss
    # Optimizer state exists from the end of the first step on.
    assert result["peak_allocated_step"] == 2
    assert result["peak_allocated_line"] == f"train.py:{line_of(TRAIN, 'backward()')} (backward)"


def test_files_of_the_result(training):
    folder, done, result = training
    assert json.loads((folder / "result.json").read_text()) == result
    text = (folder / "result.txt").read_text()
    assert "peak reserved" in text and "largest at the peak" in text
    assert f"train.py:{line_of(TRAIN, 'torch.relu')} in forward" in text
    assert sorted(p.name for p in folder.iterdir()) == ["page.html", "result.json", "result.txt", "snapshot.pickle", "train.py"]


def test_the_snapshot_is_torch_s(training, tmp_path):
    folder, _, _ = training
    with open(folder / "snapshot.pickle", "rb") as file:
        snapshot = pickle.load(file)
    sizes = [e["size"] for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
    assert sizes.count(BATCH * MIB) >= 3 * 8
    page = tmp_path / "plot.html"
    words = [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", str(folder / "snapshot.pickle"), "-o", str(page)]
    subprocess.run(words, check=True, capture_output=True)
    assert "add_local_files" in page.read_text() or page.stat().st_size > 10000


# ---- The page, in a browser

# Points at every eighth pixel above the peak, from the bottom up, and keeps what the page says.
HOVER = """
const data = JSON.parse(document.getElementById("data").textContent);
const chart = document.getElementById("chart"), box = chart.getBoundingClientRect(), said = [];
const left = 74, right = 14, x = box.left + left + (data.peak + 0.5) / data.events * (box.width - left - right);
for (let y = box.bottom - 28; y > box.top; y -= 8) {
  chart.dispatchEvent(new MouseEvent("mousemove", {clientX: x, clientY: y, bubbles: true}));
  said.push(document.getElementById("tooltip").innerText);
}
const pre = document.createElement("pre");
pre.id = "said";
pre.textContent = JSON.stringify(said);
document.body.append(pre);
"""


@needs_chromium
def test_the_page_in_a_browser(training, tmp_path):
    folder, _, result = training
    page = folder / "page.html"
    assert not re.search(r'(src|href)\s*=|@import|url\(|https?://', page.read_text())  # one file, no network
    dom = rendered(page, HOVER, tmp_path)
    said = json.loads(re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL).group(1).replace("&amp;", "&").replace("&gt;", ">"))
    assert int(re.search(r'data-drawn="(\d+)"', dom).group(1)) > 20
    categories = {line for text in said for line in re.findall("Parameter|Buffer|Optstate|Activation|Temp|Other", text)}
    assert categories >= {"Optstate", "Activation", "Temp", "Other"}
    activation = next(text for text in said if "Activation" in text)
    assert "16.00 MiB" in activation and f"{16 * MIB:,} bytes" in activation
    assert f"train.py:{line_of(TRAIN, 'torch.relu')} in forward" in activation
    assert "step 2" in activation
    peak = f"{result['peak_allocated_bytes'] / MIB:.2f} MiB allocated, {result['peak_reserved_bytes'] / MIB:.2f} MiB reserved"
    assert peak in said[0]
    assert any("free" in text or "not in use" in text for text in said[-3:])
    assert f"{result['total_bytes'] / MIB:.2f} MiB" in dom
    assert len(re.findall(r'<tr class="own"', re.search(r'<tbody id="top">.*?</tbody>', dom, re.DOTALL).group(0))) >= 10
    assert re.search(r'id="failures"[^>]*hidden', dom)


@needs_chromium
def test_the_page_of_a_long_run_stays_small(tmp_path):
    """What the program makes of 100,000 events: a page below 2 MB, of which the part around the peak is exact."""
    code = """
import torch
kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
for i in range(50_000):
    x = torch.empty((1 + i % 7) << 20, dtype=torch.uint8, device="cuda")
    if i == 30_000:
        y = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        del y
"""
    done, result = python(tmp_path, code, "-o", "page.html")
    assert done.returncode == 0, done.stderr
    page = tmp_path / "page.html"
    assert page.stat().st_size < 2_000_000
    dom = rendered(page, HOVER + 'document.getElementById("peak").click();', tmp_path)
    said = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL).group(1)
    assert "200.00 MiB" in said and f"train.py:{line_of(code, '200 << 20')}" in said
    assert result["peak_allocated_line"] == f"train.py:{line_of(code, '200 << 20')}"
    assert re.search(r'<button id="peak"[^>]*hidden', dom) and not re.search(r'<button id="reset"[^>]*hidden', dom)


# ---- Out of memory, the end of a process, several processes


def test_out_of_memory_names_the_line(tmp_path):
    code = """
import torch
def grow(held):
    held.append(torch.empty(10 << 30, dtype=torch.uint8, device="cuda"))
held = []
while True:
    grow(held)
"""
    done, result = python(tmp_path, code, "-o", "page.html", "-o", "result.txt")
    assert done.returncode == result["exit_code"] == 1
    assert "torch.OutOfMemoryError" in done.stderr
    assert result["oom"] is True
    (oom,) = result["ooms"]
    assert oom["requested_bytes"] == 10 << 30
    assert oom["reserved_bytes"] == oom["allocated_bytes"] == 30 << 30  # the fourth did not fit into 39.56 GiB
    assert oom["free_bytes"] == TOTAL - CONTEXT - (30 << 30)
    assert oom["stack"] == [f"train.py:{line_of(code, '    grow(')}", f"train.py:{line_of(code, 'held.append')} in grow"]
    assert result["total_bytes"] == CONTEXT + (30 << 30) + result["loaded_code_bytes"]
    assert "OUT OF MEMORY: 10.00 GiB asked for" in (tmp_path / "result.txt").read_text()
    assert f"at train.py:{line_of(code, 'held.append')} in grow" in (tmp_path / "page.html").read_text()


def test_out_of_memory_that_is_caught_and_in_backward(tmp_path):
    code = """
import torch
x = torch.empty(7 << 29, device="cuda", requires_grad=True)  # 14 GiB; with the result and the gradient 42
try:
    x.exp().sum().backward()
except torch.OutOfMemoryError:
    pass
"""
    done, result = python(tmp_path, code)
    assert done.returncode == 0 and result["oom"] is True
    assert f"train.py:{line_of(code, 'backward')}" in result["ooms"][0]["stack"]


def test_stop_after_steps(tmp_path):
    code = TRAIN.replace("range(3)", "range(10 ** 9)").replace("\nfor ", "\ntry:\n  for ", 1)
    head, _, body = code.partition("  for ")
    lines = body.splitlines()
    code = head + "  for " + lines[0] + "\n" + "\n".join("  " + line if line.startswith("    ") else line for line in lines[1:-1])
    code += "\nexcept Exception:\n  print('caught')\nfinally:\n  print('cleaned up')\nprint('not reached')\n"
    done, result = python(tmp_path, code, "--stop-after-steps", 2)
    assert done.returncode == result["exit_code"] == 0, done.stderr
    assert (result["steps"], result["stopped_after_steps"]) == (2, True)
    assert "cleaned up" in done.stderr and "not reached" not in done.stderr and "caught" not in done.stderr


@pytest.mark.parametrize("how, code_expected", [
    ("import os; os._exit(5)", 5),
    ("import sys; sys.exit(6)", 6),
    ("raise ValueError", 1),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + 15),
])
def test_the_report_survives_every_end(tmp_path, how, code_expected):
    code = "import torch\nx = torch.empty(100 << 20, dtype=torch.uint8, device='cuda')\n" + how + "\n"
    done, result = python(tmp_path, code)
    assert done.returncode == result["exit_code"] == code_expected
    assert result["peak_reserved_bytes"] == 100 * MIB
    assert result["total_bytes"] == 100 * MIB + CONTEXT + result["loaded_code_bytes"]
    assert result["peak_line"] == "train.py:2"


def test_child_processes_share_the_device(tmp_path):
    code = """
import multiprocessing, torch
def work(barrier, mebibytes):
    x = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
    barrier.wait()
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    workers = [context.Process(target=work, args=(barrier, m)) for m in (40, 60)]
    for worker in workers: worker.start()
    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    barrier.wait()
    for worker in workers: worker.join()
"""
    done, result = python(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert sorted(p["peak_reserved_bytes"] for p in result["processes"]) == [40 * MIB, 60 * MIB, 100 * MIB]
    assert result["peak_reserved_bytes"] == 100 * MIB  # of the process that reserved most
    assert result["total_bytes"] == 200 * MIB + 3 * CONTEXT + result["loaded_code_bytes"]  # all at a time


def test_compiled_programs_run(tmp_path):
    """Inductor's kernels are compiled by Triton and started through the driver, in caches of their own."""
    code = """
import os, torch
function = torch.compile(lambda x: (x * 2 + 1).relu().sum())
x = torch.empty(1 << 20, device="cuda", requires_grad=True)
function(x).backward()
print("caches", os.environ["TRITON_CACHE_DIR"])
"""
    done, result = python(tmp_path, code)
    if "InductorError" in done.stderr and "compiler" in done.stderr.lower():
        pytest.skip("no compiler for Triton")
    assert done.returncode == 0, done.stderr
    assert result["peak_allocated_bytes"] >= 2 * 4 * MIB  # x and its gradient
    assert result["not_modelled"] == {}
    caches = re.search("caches (.*)", done.stderr).group(1)
    assert not os.path.exists(caches)  # gone with the run


def test_kernels_of_triton_are_timed_by_what_they_are_given(tmp_path):
    """However many threads its blocks make of it: else a tuner would go for the fewest, without end."""
    code = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)

x, y = torch.empty(1 << 24, device="cuda"), torch.empty(1 << 24, device="cuda")
times = []
for block in (64, 256, 4096):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    double[(x.numel() // block,)](x, y, x.numel(), block)
    begin.record()
    double[(x.numel() // block,)](x, y, x.numel(), block)
    end.record()
    end.synchronize()
    times.append(begin.elapsed_time(end))
print("times", *times)
"""
    done, result = python(tmp_path, code)
    if "compiler" in done.stderr.lower() and "times" not in done.stderr:
        pytest.skip("no compiler for Triton")
    assert done.returncode == 0, done.stderr
    times = [float(word) for word in re.search("times (.*)", done.stderr).group(1).split()]
    # 64 MiB in and 64 MiB out at 1.555 TB/s take 0.086 ms and more.
    assert times[0] == times[1] == times[2] and 0.086 < times[0] < 0.2, times
    assert result["guessed_launches"] == 0


# ---- The device


def test_a_gpu_of_one_s_own(tmp_path, checkout):
    profile = json.loads((checkout / "profiles" / "t4.json").read_text())
    profile["name"] = "tiny"
    profile["memory_bytes"]["value"] = 1 << 30
    (tmp_path / "my gpu.json").write_text(json.dumps(profile))
    (listed,) = result_of("gpus", "--gpu", tmp_path / "my gpu.json")["gpus"]
    assert listed["name"] == "tiny" and listed["memory_bytes"] == 1 << 30
    code = "import torch\nprint(torch.cuda.get_device_capability())\ntorch.empty(1 << 30, dtype=torch.uint8, device='cuda')\n"
    done, result = python(tmp_path, code, "--gpu", "my gpu.json")
    assert "(7, 5)" in done.stderr
    assert (result["gpu"], result["capacity_bytes"], result["oom"]) == ("tiny", 1 << 30, True)


def test_faults_and_the_log(tmp_path):
    code = "import torch\ntry: torch.empty(1, device='cuda')\nexcept torch.OutOfMemoryError: print('failed')\n"
    done, result = python(tmp_path, code, "--fail", "cudaMalloc@1+", "--log", "calls.log", "--seed", 3)
    assert "failed" in done.stderr and result["oom"] is True
    assert result["faults_injected"] >= 1
    assert "cudaMalloc" in (tmp_path / "calls.log").read_text()


def test_gpus():
    result = result_of("gpus")
    gpus = {gpu["name"]: gpu for gpu in result["gpus"]}
    assert set(gpus) == set("""p100 titanx titanv v100-16gb v100-32gb t4 rtx2080ti rtx3060 rtx3070 rtx3090 rtx4060 rtx4090 a10 l4
                               a100-40gb a100-80gb h100-80gb""".split())
    a100 = gpus["a100-40gb"]
    assert (a100["memory_bytes"], a100["context_bytes"], a100["compute_capability"]) == (TOTAL, CONTEXT, "8.0")
    assert a100["memory_bandwidth"] == 1.555e12 and a100["sources"]["memory_bandwidth"]
    for gpu in gpus.values():
        assert 0 < gpu["context_bytes"] < gpu["memory_bytes"]
        assert gpu["available_bytes"] == gpu["memory_bytes"] - gpu["context_bytes"]
    text = run("gpus").stdout
    assert all(re.search(rf"^{name} ", text, re.MULTILINE) for name in gpus)
    assert_refused(run("gpus", "--gpu", "rtx3091"), 'GPU "rtx3091"', "did you mean")
