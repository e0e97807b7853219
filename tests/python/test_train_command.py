"""`ebbtide train` and `ebbtide profile`."""

import json
import os
import subprocess

import pytest

pytest.importorskip("torch")

from support.command_line import PROGRAM  # noqa: E402

MLP = ["mlp", "--widths", "64,64,64,64,10", "--batch-size", "2048", "--threads", "1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")

    def call(*words, cwd=None):
        environment = os.environ | {"XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
        return subprocess.run([PROGRAM, *words], cwd=cwd or cache, env=environment, capture_output=True, text=True)

    return call


def test_train_keeps_its_budget_and_the_numbers_of_pytorch(run, tmp_path):
    done = run("train", *MLP, "--budget", "70%", "--steps", "3", "--optimizer", "adam", "--check", "--json", "-o", str(tmp_path / "r.json"))
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["feasible"] and said["same_bits"] and len(said["losses"]) == said["steps"] == 3
    assert said["losses"][2] < said["losses"][0]
    assert said["peak_bytes"] <= said["budget_bytes"] <= 0.7 * said["plain_peak_bytes"]
    assert json.loads((tmp_path / "r.json").read_text()) == said


def test_train_says_what_would_fit(run):
    done = run("train", *MLP, "--budget", "70%", "--policy", "none")
    assert (done.returncode, done.stderr) == (1, "")
    assert "none finds no plan" in done.stdout and "the smallest budget that works is" in done.stdout
    done = run("train", *MLP, "--budget", "1KiB", "--json")
    assert done.returncode == 1
    smallest = json.loads(done.stdout)["minimum_budget_bytes"]
    done = run("train", *MLP, "--budget", str(smallest), "--steps", "1")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("step   1   loss ") and "budget " in done.stdout


def test_train_a_function_of_a_script(run, checkout):
    done = run("train", str(checkout / "examples" / "mlp.py") + ":training_step", "--steps", "2", "--check", "-q")
    assert done.returncode == 0, done.stderr
    assert "to the last bit" in done.stdout


def test_profile_writes_a_graph_that_can_be_planned(run, tmp_path):
    done = run("profile", *MLP, "--json", "-o", "timed.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    graph = json.loads((tmp_path / "timed.json").read_text())
    assert said["ops"] == len(graph["ops"])
    assert said["time_ns"] == sum(op.get("time_ns", 0) for op in graph["ops"])
    times = [op["time_ns"] for op in said["slowest"]]
    assert times == sorted(times, reverse=True) and times[0] > 0
    planned = json.loads(run("plan", "timed.json", "--budget", "90%", "--json", "--no-bound", cwd=tmp_path).stdout)
    assert planned["plain_time_ns"] == said["time_ns"]


@pytest.mark.parametrize(("words", "line"), [
    (["train"], "ebbtide train: expected a MODEL (see ebbtide models) or a SCRIPT.py:function"),
    (["train", "resnet19"], "ebbtide train: resnet19: expected a SCRIPT.py:function or a built-in model"),
    (["train", "mlp", "--budget", "much"], "ebbtide train: --budget: 'much': expected a size"),
    (["train", "mlp", "--policy", "best"], "ebbtide train: "),
    (["train", "mlp", "--steps", "0"], "ebbtide train: --steps"),
    (["train", "mlp", "-o", "x.html"], "ebbtide train: -o x.html: expected a name that ends in .json or .txt"),
    (["train", "mlp", "--link", "fast"], "ebbtide: link 'fast': expected bytes per second from 1 on, as '12GB/s'"),
    (["train", "mlp", "--device", "cuda"], "ebbtide: device 'cuda': PyTorch sees no GPU; expected one, or the phantom GPU"),
    (["profile", "mlp", "-o", "x.txt"], "ebbtide profile: -o x.txt: expected a name that ends in .json or .json.gz"),
])
def test_mistakes(run, words, line):
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1, done.stderr
