"""`ebbtide estimate -o snapshot.pickle`: torch's own tools take it, and a replay of it gives the estimate's figures."""

import importlib.util
import pathlib
import pickle
import pickletools
import sys

import pytest
from support.command_line import assert_refused, result_of, run

MODEL = ["resnet18", "--batch-size", 8, "--image-size", 64, "--optimizer", "adam", "--gpu", "rtx3060"]


def estimate(path, *words):
    result = result_of("estimate", *MODEL, *words, "-o", path)
    return result, pickle.loads(path.read_bytes())


@pytest.fixture(scope="module")
def viz():
    """torch.cuda._memory_viz, without the rest of torch, which it does not need."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        pytest.skip("no torch")
    path = pathlib.Path(torch.origin).parent / "cuda" / "_memory_viz.py"
    spec = importlib.util.spec_from_file_location("memory_viz_of_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("conf", ["", "max_split_size_mb:32", "expandable_segments:True", "roundup_power2_divisions:4"])
def test_a_replay_gives_the_figures_of_the_estimate(tmp_path, conf):
    words = ["--alloc-conf", conf] if conf else []
    predicted, snapshot = estimate(tmp_path / "s.pickle", *words)
    replayed = result_of("replay", tmp_path / "s.pickle", "--allocator", "pytorch", *words)
    for field in ("peak_reserved_bytes", "peak_allocated_bytes", "segments"):
        assert replayed[field] == predicted[field]
    assert replayed["recorded"]["exact"]
    assert replayed["final_reserved_bytes"] == sum(s["total_size"] for s in snapshot["segments"])
    assert replayed["final_allocated_bytes"] == sum(s["allocated_size"] for s in snapshot["segments"])


def test_segments_and_blocks_are_as_torch_has_them(tmp_path):
    _, snapshot = estimate(tmp_path / "s.pickle")
    assert snapshot["segments"] == sorted(snapshot["segments"], key=lambda s: s["address"])
    for segment in snapshot["segments"]:
        assert 0 < segment["address"] < 2**47 and not segment["is_expandable"]
        at, before = segment["address"], None
        for block in segment["blocks"]:
            assert block["address"] == at
            assert before != "inactive" or block["state"] != "inactive"  # free neighbours are joined
            assert (block["requested_size"] > 0) == (block["state"] == "active_allocated")
            at, before = at + block["size"], block["state"]
        assert at == segment["address"] + segment["total_size"]
    history = snapshot["device_traces"][0]
    assert [e["time_us"] for e in history] == sorted(e["time_us"] for e in history)
    kinds = {e["action"] for e in history}
    assert kinds == {"alloc", "free_requested", "free_completed", "segment_alloc"}
    live = {b["address"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    for entry in history[::-1]:  # backwards, so that the end of the history is the end of the snapshot
        if entry["action"] == "alloc":
            live.remove(entry["addr"])
        elif entry["action"] == "free_completed":
            live.add(entry["addr"])
    assert not live


def test_frames_name_tensor_op_layers_phase_and_iteration(tmp_path):
    _, snapshot = estimate(tmp_path / "s.pickle")
    gradient = next(e for e in snapshot["device_traces"][0]
                    if e["action"] == "alloc" and e["frames"][0]["filename"] == "layer1.0.conv1.weight.grad")
    assert gradient["size"] == 64 * 64 * 3 * 3 * 4 and gradient["user_metadata"] == "Gradient"
    stack = [(f["filename"], f["name"]) for f in gradient["frames"]]
    assert stack == [
        ("layer1.0.conv1.weight.grad", "Gradient"), ("layer1.0.conv1", "convolution_backward"), ("layer1.0", "module"),
        ("layer1", "module"), ("resnet18", "backward"), ("resnet18", "iteration")]


def test_torchs_own_tools_take_it(tmp_path, viz, monkeypatch, capsys):
    _, small = estimate(tmp_path / "s.pickle")
    _, large = estimate(tmp_path / "t.pickle", "--zero-grad", "end")
    text = lambda lines: lines  # noqa: E731  flamegraph.pl would be fetched from the network
    assert f"segments: {len(small['segments'])}" in viz.segsum(small)
    assert "cudaMalloc" in viz.trace(small)
    assert "layer4.1.conv1" in viz.memory(small, format_flamegraph=text)
    assert "seg_" in viz.segments(small, format_flamegraph=text)
    viz.compare(small["segments"], large["segments"], format_flamegraph=text)
    assert "only_before" in capsys.readouterr().out
    for action in ("trace_plot", "segment_plot"):
        page = tmp_path / f"{action}.html"
        monkeypatch.setattr(sys, "argv", ["_memory_viz.py", action, str(tmp_path / "s.pickle"), "-o", str(page)])
        spec = importlib.util.spec_from_file_location("__main__", viz.__file__)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))  # as a program
        assert "snapshot.pickle" in page.read_text()


def test_lists_are_pushed_in_batches_that_a_browser_takes(tmp_path):
    estimate(tmp_path / "s.pickle")
    since_mark, most = [], 0
    for opcode, _, _ in pickletools.genops((tmp_path / "s.pickle").read_bytes()):
        if opcode.name == "MARK":
            since_mark.append(0)
        elif opcode.name in ("APPENDS", "SETITEMS"):
            most = max(most, since_mark.pop())
        elif opcode.name in ("EMPTY_DICT", "EMPTY_LIST") and since_mark:
            since_mark[-1] += 1
    assert 500 < most <= 1001


def test_a_job_that_does_not_fit_ends_with_what_fails(tmp_path):
    path = tmp_path / "s.pickle"
    done = run("estimate", "resnet18", "--batch-size", 4000, "--gpu", "rtx3060", "-o", path)
    assert done.returncode == 1
    history = pickle.loads(path.read_bytes())["device_traces"][0]
    assert [e["action"] for e in history].count("oom") == 1
    last = history[-1]
    assert last["action"] == "oom" and 0 <= last["device_free"] < last["size"]


def test_files_of_other_names_and_allocators_without_segments_are_refused(tmp_path):
    assert_refused(run("estimate", "mlp", "-o", tmp_path / "s.pkl"), "expected a name that ends in .html, .json, .txt or .pickle")
    words = ["--alloc-conf", "backend:cudaMallocAsync", "-o", tmp_path / "s.pickle"]
    assert_refused(run("estimate", "mlp", *words), "expected an allocator that has segments")
