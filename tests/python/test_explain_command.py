"""`ebbtide explain`: what was held when memory ran out, from a snapshot that torch itself wrote, or from a log."""

import json
import pickle
import subprocess
import sys
import textwrap

import pytest
from support.browser import needs_chromium, rendered
from support.command_line import HAS_PHANTOM, PROGRAM, assert_refused, result_of, run

MIB = 1 << 20

LOG = """\
epoch 1
Traceback (most recent call last):
  File "/home/u/train.py", line 31, in <module>
    main()
  File "/home/u/train.py", line 20, in main
    out = model(batch)
  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1736, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which \
1.25 GiB is free. Process 77 has 4.00 GiB memory in use. Including non-PyTorch memory, this process has 18.40 GiB memory in \
use. Of the allocated memory 15.50 GiB is allocated by PyTorch, and 2.50 GiB is reserved by PyTorch but unallocated. If \
reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
"""
OLD_LOG = ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 3.95 GiB total capacity; 3.00 GiB already "
           "allocated; 2.00 MiB free; 3.10 GiB reserved in total by PyTorch)\n")


def gib(number):
    return round(number * 1024 * MIB)


def test_the_text_of_an_error(tmp_path):
    (tmp_path / "log.txt").write_text(LOG)
    result = result_of("explain", tmp_path / "log.txt")
    assert result["source"] == "log" and result["oom"] and result["ooms"] == 1
    assert result["requested_bytes"] == gib(2) and result["capacity_bytes"] == gib(23.65)
    assert result["allocated_bytes"] == gib(15.5) and result["reserved_bytes"] == gib(18)
    assert result["fragmentation_bytes"] == gib(2.5)
    assert result["available_bytes"] == gib(18) + gib(1.25)
    assert result["other_processes_bytes"] == gib(4)
    assert result["outside_pytorch_bytes"] == gib(18.4) - gib(18)
    assert result["held"] == {"unknown": gib(15.5)}
    assert result["line"] == "/home/u/train.py:20"
    assert "other processes" in result["remedies"][0]  # they hold more than was missing
    assert any("expandable_segments" in text for text in result["remedies"])
    assert any("line 9 of the log" in text for text in result["notes"])


def test_the_text_of_old_versions(tmp_path):
    (tmp_path / "log.txt").write_text(OLD_LOG * 2)
    result = result_of("explain", tmp_path / "log.txt")
    assert result["ooms"] == 2
    assert result["requested_bytes"] == 20 * MIB and result["capacity_bytes"] == gib(3.95)
    assert result["reserved_bytes"] == gib(3.1) and result["fragmentation_bytes"] == gib(3.1) - gib(3)


@pytest.mark.parametrize("content, message", [
    ("nothing happened\n", "out of memory"),
    ("", "empty"),
    (pickle.dumps({"segments": [], "device_traces": [[]]}), "nothing was allocated"),
    (pickle.dumps([1, 2]), "device_traces"),
    (pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc", "size": -1}]]}), "device_traces[0][0]"),
    (b"\x80\x04cos\nsystem\n(S'true'\ntR.", "expected"),
])
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_refused(run("explain", path), message)


TRAINING = """\
import torch
from torch import nn

torch.cuda.memory._record_memory_history(stacks="python")
kept = []
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1024, 1024)
    def forward(self, x):
        return torch.sigmoid(self.layer(x))  # line 11
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
try:
    for i in range(ITERATIONS):
        x = torch.zeros(2048, 1024).cuda()  # line 16
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        LEAK
    big = torch.empty(TOO_MUCH << 20, dtype=torch.uint8, device="cuda")  # line 22
except torch.OutOfMemoryError:
    pass
torch.cuda.memory._dump_snapshot("snapshot.pickle")
"""


@pytest.fixture
def snapshot_of(tmp_path):
    """The snapshot of a program that torch ran on the phantom GPU."""
    if not HAS_PHANTOM:
        pytest.skip("the build has no phantom GPU")

    def make(leak="pass", iterations=6, too_much=1 << 20):
        code = TRAINING.replace("LEAK", leak).replace("ITERATIONS", str(iterations)).replace("TOO_MUCH", str(too_much))
        (tmp_path / "train.py").write_text(textwrap.dedent(code))
        subprocess.run([PROGRAM, "dryrun", "-q", "--", sys.executable, "train.py"], cwd=tmp_path, check=True, capture_output=True)
        return tmp_path / "snapshot.pickle"

    return make


def test_who_held_what(snapshot_of):
    result = result_of("explain", snapshot_of())
    assert result["source"] == "snapshot" and result["oom"]
    assert result["requested_bytes"] == 1 << 40 and result["line"].endswith("train.py:22")
    parameters = 4 * (1024 * 1024 + 1024) * 4
    assert result["held"]["parameter"] == parameters
    assert parameters * 2 <= result["held"]["optimizer_state"] <= parameters * 2 + 8 * 512  # and a count for each
    assert result["held"]["input"] == 2048 * 1024 * 4
    assert sum(result["held"].values()) == result["allocated_bytes"]
    assert result["reserved_bytes"] == result["allocated_bytes"] + result["fragmentation_bytes"] + result["cached_bytes"]
    assert result["leak_bytes_per_iteration"] == 0 and result["iterations_compared"] >= 3
    assert not any("leaves" in text for text in result["remedies"])


def test_a_leak_is_found_with_its_line(snapshot_of):
    result = result_of("explain", snapshot_of("kept.append(torch.ones(3 << 20, device='cuda'))  # line 21"))
    assert result["leak_bytes_per_iteration"] == 12 * MIB
    assert [leak["line"].rsplit("/")[-1] for leak in result["leaks"]] == ["train.py:21"]
    assert "train.py:21 leaves 12.00 MiB" in result["remedies"][0]


def test_without_a_failure_it_is_the_peak(snapshot_of):
    result = result_of("explain", snapshot_of(too_much=1))
    assert not result["oom"] and any("most was allocated" in note for note in result["notes"])
    # In the middle of a step: what blocks keep for backward, at least two of their outputs.
    assert result["held"]["activation"] >= 2 * 2048 * 1024 * 4
    assert any(holder["line"].endswith("train.py:11") and holder["category"] == "activation" for holder in result["largest"])


def test_expandable_segments_are_proposed_where_they_help(tmp_path):
    """Two pieces of 40 MiB are free, each beside one in use, and 60 MiB are asked for: only pages can be joined."""
    base = 1 << 40
    entries = []

    def entry(action, address, size):
        entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": [], "time_us": len(entries)})

    def give_back(address, size):
        entry("free_requested", address, size)
        entry("free_completed", address, size)

    segments = []
    for i in range(2):
        address = base + i * (1 << 30)
        entry("segment_alloc", address, 80 * MIB)
        entry("alloc", address, 80 * MIB)
        give_back(address, 80 * MIB)
        entry("alloc", address, 40 * MIB)
        entry("alloc", address + 40 * MIB, 40 * MIB)
        blocks = [{"size": 40 * MIB, "requested_size": 40 * MIB, "state": "active_allocated", "frames": []},
                  {"size": 40 * MIB, "requested_size": 0, "state": "inactive", "frames": []}]
        segments.append({"device": 0, "address": address, "total_size": 80 * MIB, "stream": 0, "segment_type": "large",
                         "is_expandable": False, "blocks": blocks})
    for segment in segments:
        give_back(segment["address"] + 40 * MIB, 40 * MIB)
    entries.append({"action": "oom", "device_free": 10 * MIB, "size": 60 * MIB, "stream": 0, "frames": []})
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [entries]}))
    result = result_of("explain", path)
    assert result["fragmentation_bytes"] == 80 * MIB and result["allocated_bytes"] == 80 * MIB
    assert result["available_bytes"] == 170 * MIB
    assert "expandable_segments:True: the recorded requests" in result["remedies"][0]


def test_weights_that_bitsandbytes_makes_and_what_has_no_line(tmp_path):
    """Codes are parameters though no rule of torch's own is in their frames; C++ frames alone, of autograd's threads, are no line of the program."""
    def frame(filename, name):
        return {"filename": filename, "line": 7, "name": name}

    made = {"/x/site-packages/bitsandbytes/functional.py": "quantize_4bit", "/x/site-packages/bitsandbytes/nn/modules.py": "_quantize",
            "/home/u/load.py": "load"}
    of_engine = [frame("??", "torch::unwind::unwind()"), frame("??", "torch::autograd::Engine::thread_main(x)")]
    blocks = [{"size": MIB, "requested_size": MIB, "state": "active_allocated", "frames": frames}
              for frames in ([frame(*one) for one in made.items()], of_engine)]
    segment = {"device": 0, "address": 1 << 40, "total_size": 2 * MIB, "stream": 0, "segment_type": "large", "is_expandable": False, "blocks": blocks}
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]]}))
    result = result_of("explain", path)
    assert result["held"] == {"parameter": MIB, "gradient": MIB}
    assert {(holder["line"], holder["category"]) for holder in result["largest"]} == {("/home/u/load.py:7", "parameter"), ("", "gradient")}


@needs_chromium
def test_the_page(tmp_path):
    (tmp_path / "log.txt").write_text(LOG)
    done = run("explain", tmp_path / "log.txt", "-o", tmp_path / "page.html")
    assert done.returncode == 0
    assert "15.50 GiB" in rendered(tmp_path / "page.html", "", tmp_path)


def test_from_python(tmp_path):
    from ebbtide import native

    (tmp_path / "log.txt").write_text(LOG)
    result = native.explain(str(tmp_path / "log.txt"))
    assert json.loads(result.to_json())["fragmentation_bytes"] == gib(2.5)
    assert "OUT OF MEMORY" in repr(result)
