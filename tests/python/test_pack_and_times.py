"""ebbtide pack, and measured steps as MODEL, from the command line."""

import csv
import gzip
import json
import subprocess

import pytest
from support.command_line import PROGRAM

INSTANCE = """id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
"""

TRACE = {
    "ops": [{"name": "mm", "time_ns": 100, "bwd": False, "in": [0, 1], "out": [2]},
            {"name": "view", "time_ns": 1, "bwd": False, "in": [2], "out": []},
            {"name": "mm", "time_ns": 200, "bwd": True, "in": [1, 2], "out": [3]}],
    "storages": [{"bytes": 1000, "const": True}, {"bytes": 500, "const": True},
                 {"bytes": 64, "const": False}, {"bytes": 32, "const": False}],
    "free": [[], [], [1, 2]],
}

LAYERS = """node1 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=40.000, parameter_size=0.000
node2 -- ReLU(inplace) -- forward_compute_time=1.500, backward_compute_time=2.000, activation_size=40.000, parameter_size=0.000
\tnode1 -- node2
"""


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def assert_refused(done, *parts):
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


@pytest.fixture
def instance(tmp_path):
    path = tmp_path / "instance.csv"
    path.write_text(INSTANCE)
    return path


def test_pack_fits_and_writes_offsets(instance, tmp_path):
    out = tmp_path / "solution.csv"
    done = run("pack", instance, "--json", "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    # Steps 3 to 9 hold b2, b3 and b5: 12 bytes.
    assert (result["fits"], result["height_bytes"]) == (True, 12)
    assert (result["lower_bound_bytes"], result["capacity_bytes"]) == (12, 12)
    rows = list(csv.DictReader(out.open()))
    assert [row["id"] for row in rows] == ["b1", "b2", "b3", "b4", "b5"]
    assert [int(row["offset"]) for row in rows] == [entry["offset"] for entry in result["offsets"]]
    for i, a in enumerate(rows):
        for b in rows[:i]:
            at_once = int(a["lower"]) < int(b["upper"]) and int(b["lower"]) < int(a["upper"])
            apart = abs(int(a["offset"]) - int(b["offset"])) >= 4
            assert apart or not at_once


def test_pack_says_when_it_does_not_fit(instance):
    done = run("pack", instance, "--capacity", "11")
    assert done.returncode == 1
    assert "no, 1 B" in done.stdout


def test_pack_is_the_same_every_time(instance):
    assert run("pack", instance, "--json").stdout == run("pack", instance, "--json").stdout


def test_pack_refuses_in_one_line(instance, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(INSTANCE + "b6,5,5,1\n")
    assert_refused(run("pack", bad), "bad.csv: line 7:", "upper above lower")
    assert_refused(run("pack", tmp_path / "none.csv"), "none.csv")
    assert_refused(run("pack", instance, "--capacity", "0"), "--capacity")
    assert_refused(run("pack", instance, "--time-limit", "-1"), "--time-limit")
    assert_refused(run("pack", instance, "-o", tmp_path / "x.png"), ".csv, .json, .txt or .html")
    assert_refused(run("pack"), "INSTANCE")
    assert not (tmp_path / "x.png").exists()


def test_timed_traces_are_models(tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    done = run("inspect", path, "--json", "--gpu", "titanv")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    # Its own times, also with --gpu. Most during the last op: 1000 + 500 + 64 + 32.
    assert (result["ops"], result["time_ns"], result["peak_bytes"]) == (3, 301, 1596)
    assert_refused(run("inspect", path, "--batch-size", "4"), "--batch-size", "of no use")
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({**TRACE, "free": [[], [], [9]]}))
    assert_refused(run("inspect", bad), "bad.json: free[2][0]")


def test_layer_profiles_are_models(tmp_path):
    path = tmp_path / "layers.txt"
    path.write_text(LAYERS)
    result = json.loads(run("inspect", path, "--json").stdout)
    # Input, ReLU, the loss of 1000 ns, and the backward of ReLU.
    assert (result["ops"], result["time_ns"]) == (4, 1_500_000 + 1000 + 2_000_000)
    assert_refused(run("inspect", path, "--optimizer", "adam"), "--optimizer", "of no use")
    path.write_text(LAYERS + "\tnode2 -- node3\n")
    assert_refused(run("inspect", path), "layers.txt: line 4: no line describes node3")


def test_gpu_models_the_time_of_a_step(tmp_path):
    slow, fast = (json.loads(run("inspect", "resnet18", "--batch-size", "8", "--gpu", gpu, "--json").stdout)["time_ns"]
                  for gpu in ("titanv", "h100-80gb"))
    assert 0 < fast < slow
    graph = tmp_path / "graph.json"
    run("inspect", "resnet18", "--batch-size", "8", "--gpu", "titanv", "--graph-out", graph)
    assert json.loads(run("inspect", graph, "--json").stdout)["time_ns"] == slow
    assert_refused(run("inspect", "resnet18", "--gpu", "voodoo2"), "voodoo2")
