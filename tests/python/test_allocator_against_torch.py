"""Our model of PyTorch's allocator and PyTorch's allocator itself, on the phantom GPU: the same figures on random traces.
`make soak` runs 10,000 of them (bench/soak/allocator.py)."""

import json
import shutil
import subprocess
import sys

import pytest
from support import allocator_traces, on_phantom

pytestmark = [
    on_phantom.needs_phantom,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]
TRACES = 50


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    return allocator_traces.make_gates(tmp_path_factory.mktemp("gates"))


@pytest.mark.parametrize("number", [0, 3, 6, 8, 11, 13])
def test_same_figures_as_torch(tmp_path, gates, number):
    differences, ooms, _ = allocator_traces.compare(
        tmp_path / "traces", allocator_traces.SETTINGS[number], 1 + 1000 * number, TRACES, gates
    )
    assert differences == []
    assert 0 < ooms < TRACES  # some run out, some do not


SNAPSHOT = """
import sys, torch
def empty(mebibytes): return torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
before = [empty(n) for n in (3, 5, 40, 1)]
early = empty(8)
torch.cuda.memory._record_memory_history(max_entries=1000)
del before[1], early
kept = [empty(n) for n in (30, 6, 6, 6, 1)]
del kept[1]
torch.cuda.empty_cache()
kept += [empty(n) for n in (25, 7, 2)]
torch.cuda.memory._dump_snapshot(sys.argv[1])
"""


def test_a_snapshot_of_torch_is_replayed_exactly(tmp_path):
    """The state that the history began with follows from the state at its end."""
    snapshot = tmp_path / "snapshot.pickle"
    subprocess.run([sys.executable, "-W", "ignore", "-c", SNAPSHOT, snapshot], check=True, capture_output=True,
                   env=on_phantom.environment())
    done = subprocess.run([allocator_traces.PROGRAM, "replay", snapshot, "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["recorded"]["exact"] is True
    assert result["recorded"]["segments"] > 0 and result["peak_reserved_bytes"] > 0
