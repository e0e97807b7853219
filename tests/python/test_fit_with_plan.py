"""`ebbtide fit --with-plan` as a user runs it: the largest batch that a plan makes fit."""

import json
from pathlib import Path

import pytest
from support.command_line import assert_refused, result_of, run

MIB = 2**20
PROFILE = Path(__file__).parents[2] / "profiles" / "v100-16gb.json"


def step_at(batch):
    """From x (1 MiB a sample), a and b (1 MiB each) are made in 1 and 2 ms, c (2 MiB) comes and goes, and a and b are read.

    Everything kept: x + a + b + c = 5 MiB a sample. With a made again: 4 MiB, 1 of 4 ms more. With b, too: 3 MiB, 3 ms more.
    """
    sizes = [1, 1, 1, 2, 0]
    kinds = ["input"] + 4 * ["activation"]
    storages = [{"kind": kind, "bytes": size * MIB * batch} for kind, size in zip(kinds, sizes, strict=True)]
    tensors = [{"storage": i, "dtype": "uint8", "shape": [batch, size * MIB]} for i, size in enumerate(sizes)]

    def op(kind, phase, inputs, outputs, milliseconds):
        return {"kind": kind, "phase": phase, "inputs": inputs, "outputs": outputs, "time_ns": int(milliseconds * 1e6)}

    ops = [op("relu", "forward", [0], [1], 1), op("gelu", "forward", [0], [2], 2), op("neg", "forward", [0], [3], 0.5),
           op("add", "backward", [1, 2], [4], 0.5)]
    return {"format": "ebbtide.graph", "version": 1, "name": "by hand", "storages": storages, "tensors": tensors, "ops": ops,
            "outputs": [4]}


@pytest.fixture
def words(tmp_path):
    """MODEL, --other-batch and a GPU with 60 MiB beside its context, with a slow link."""
    for batch in (2, 3):
        (tmp_path / f"step{batch}.json").write_text(json.dumps(step_at(batch)))
    profile = json.loads(PROFILE.read_text())
    values = {"memory_bytes": 64 * MIB, "context_bytes": 4 * MIB, "host_to_device_bandwidth": 1e9, "device_to_host_bandwidth": 1e9}
    for field, value in values.items():
        profile[field] = {"value": value, "source": "made up"}
    profile["name"] = "small"
    (tmp_path / "small.json").write_text(json.dumps(profile))
    return ["fit", tmp_path / "step2.json", "--other-batch", tmp_path / "step3.json", "--gpu", tmp_path / "small.json"]


@pytest.mark.parametrize("limit, batch, time", [(1, 12, 4), (1.25, 15, 5), (1.7, 15, 5), (1.75, 20, 7), (100, 20, 7)])
def test_the_largest_batch_by_hand(words, limit, batch, time):
    """60 MiB hold 12 samples of 5 MiB, 15 of 4 and 20 of 3."""
    result = result_of(*words, "--with-plan", "--slowdown", limit)
    assert (result["policy"], result["slowdown_limit"]) == ("home", limit)
    (row,) = result["gpus"]
    assert (row["gpu"], row["max_batch_with_plan"]) == ("small", batch)
    plan = row["with_plan"]
    assert (plan["budget_bytes"], plan["max_batch_kept"]) == (60 * MIB, 12)
    assert plan["plain_time_ns"] == 4_000_000 and plan["time_ns"] == time * 1_000_000
    assert plan["slowdown"] == time / 4 <= limit
    assert plan["peak_bytes"] <= 60 * MIB
    assert plan["time_per_sample_ns"] == time * 1_000_000 // batch
    assert plan["plain_time_per_sample_ns"] == 4_000_000 // batch
    assert plan["kept_time_per_sample_ns"] == 4_000_000 // 12
    assert plan["limited_by"] == ("time" if limit < 1.75 else "memory")
    assert batch < plan["no_plan_from"] <= 21


def test_without_plans_nothing_is_said_of_them(words):
    result = result_of(*words)
    (row,) = result["gpus"]
    assert (row["max_batch_with_plan"], row["with_plan"], result["policy"], result["slowdown_limit"]) == (None,) * 4
    assert "plan" not in run(*words).stdout.splitlines()[2]


def test_the_table(words):
    done = run(*words, "--with-plan", "--policy", "dtr")
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("all kept", "with a plan", "1.75x", "memory", "with a plan: by dtr, an iteration at most 2x as long"):
        assert part in done.stdout
    assert "20" in next(line for line in done.stdout.splitlines() if line.startswith("small")).split()


def test_a_built_in_model_with_its_plan():
    """The answer has a plan in `ebbtide plan`, too, within the GPU's memory beside its context."""
    words = ("resnet18", "--image-size", "512", "--gpu", "rtx3060")
    (row,) = result_of("fit", *words, "--with-plan", "--policy", "capuchin", "--slowdown", "1.3")["gpus"]
    assert row["max_batch_with_plan"] > row["with_plan"]["max_batch_kept"] >= row["max_batch"] > 1
    assert 1 < row["with_plan"]["slowdown"] <= 1.3
    plan = result_of("plan", *words, "--policy", "capuchin", "--batch-size", row["max_batch_with_plan"], "--no-bound")
    assert plan["budget_bytes"] == row["with_plan"]["budget_bytes"]
    assert plan["time_ns"] == row["with_plan"]["time_ns"]
    assert plan["plain_time_ns"] == row["with_plan"]["plain_time_ns"]


def test_threads_do_not_matter(words):
    words = [*words, "--with-plan", "--json"]
    assert run(*words, "--threads", 1).stdout == run(*words, "--threads", 3).stdout


@pytest.mark.parametrize("more, parts", [
    (["--slowdown", "2"], ["--slowdown: of no use without --with-plan"]),
    (["--policy", "home"], ["--policy: of no use without --with-plan"]),
    (["--with-plan", "--slowdown", "0.5"], ["--slowdown: expected a number from 1 to 1000000, found 0.5"]),
    (["--with-plan", "--slowdown", "nan"], ["--slowdown: expected a number from 1 to 1000000, found nan"]),
    (["--with-plan", "--policy", "hoem"], ["no policy is called hoem", "did you mean home"]),
])
def test_bad_flags(more, parts):
    assert_refused(run("fit", "resnet18", "--gpu", "rtx3060", *more), *parts)


def test_no_batch_at_all(tmp_path, words):
    """100 MiB at batch 1 is more than any plan can do without."""
    for batch in (1, 2):
        graph = step_at(batch)
        for storage, tensor in zip(graph["storages"], graph["tensors"], strict=True):
            storage["bytes"] *= 40
            tensor["shape"][1] *= 40
        (tmp_path / f"large{batch}.json").write_text(json.dumps(graph))
    done = run("fit", tmp_path / "large1.json", "--other-batch", tmp_path / "large2.json", *words[4:], "--with-plan", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    (row,) = json.loads(done.stdout)["gpus"]
    assert (row["max_batch"], row["max_batch_with_plan"], row["with_plan"]["no_plan_from"]) == (0, 0, 1)
    assert row["with_plan"]["time_ns"] is None and row["with_plan"]["limited_by"] == "memory"
