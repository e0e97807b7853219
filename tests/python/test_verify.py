"""`ebbtide verify`, where the phantom GPU stands in for a real one."""

import json
import subprocess

import pytest

pytest.importorskip("torch")

from support.command_line import PROGRAM  # noqa: E402


def run(*words):
    return subprocess.run([PROGRAM, "verify", *words], capture_output=True, text=True)


def test_three_answers_beside_each_other(own_cache):
    done = run("mlp:512", "--gpu", "rtx3060", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["gpu"], said["measured_on"], said["kept"]) == ("rtx3060", "phantom", True)
    (row,), (training,) = said["rows"], said["trainings"]
    assert row["dryrun"]["peak_allocated_bytes"] == row["measured"]["peak_allocated_bytes"] > 0
    assert row["predicted"]["peak_reserved_bytes"] == row["measured"]["peak_reserved_bytes"]
    assert "step_ns" not in row["measured"]  # the phantom has no time
    assert training["same_bits"] is None  # ... and no numbers
    assert 0 < training["peak_bytes"] <= training["budget_bytes"] < training["plain_peak_bytes"]


def test_says_what_stands_in(tmp_path):
    done = run("mlp:8", "--no-train", "-q", "-o", str(tmp_path / "v.txt"))
    assert done.returncode == 0
    assert done.stdout.startswith("a100-40gb; measured: no GPU here: the phantom GPU stands in for it\n")
    assert (tmp_path / "v.txt").read_text() == done.stdout


@pytest.mark.parametrize("words, line", [
    (["resnet5"], "ebbtide verify: resnet5: expected a built-in model; did you mean resnet50"),
    (["mlp:0"], "ebbtide: mlp:0: expected MODEL or MODEL:BATCH, with a batch from 1 on"),
    (["mlp", "--gpu", "nope"], "nope"),
    (["mlp", "-o", "x.html"], "-o x.html: expected a name that ends in .json or .txt"),
])
def test_mistakes_are_told(words, line):
    done = run(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert line in done.stderr and len(done.stderr.splitlines()) == 1
