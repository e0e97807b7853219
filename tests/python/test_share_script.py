"""`ebbtide share --script`: real programs, together in one pool."""

import json

import pytest

torch = pytest.importorskip("torch")

from ebbtide.commands import share as share_command  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

SCRIPT = """
import torch
from torch import nn, optim

def small(width=32):
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 8))
    return model, nn.functional.mse_loss, optim.Adam(model.parameters()), (torch.randn(16, 64), torch.randn(16, 8))

def wide():
    return small(128)

def broken():
    parts = small()
    return parts[0], lambda out, target: nn.functional.cross_entropy(out, torch.full_like(target[:, 0], 9).long()), *parts[2:]
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "jobs.py"
    path.write_text(SCRIPT)
    return str(path)


def share(capsys, *arguments):
    code = share_command.main(["-q", "--json", *arguments])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


def test_programs_train_together_as_alone(script, capsys, tmp_path):
    names = [f"{script}:small", f"{script}:wide", f"{script}:small"]
    alone = [share(capsys, "--capacity", "4MiB", "--steps", "3", name)[1]["jobs"][0]["losses"] for name in names]
    output = tmp_path / "r.json"
    code, said, _ = share(capsys, "--capacity", "4MiB", "--steps", "3", "--weights", "2,1,1", "-o", str(output), *names)
    assert code == 0 and said["fits"] and said["peak_bytes"] <= said["capacity_bytes"] == 4 << 20
    assert [job["losses"] for job in said["jobs"]] == alone
    assert [job["model"] for job in said["jobs"]] == ["jobs.py:small", "jobs.py:wide", "jobs.py:small 2"]
    assert said["time_ns"] > 0 and said["exclusive_time_ns"] > 0 and all(job["iterations_per_second"] > 0 for job in said["jobs"])
    assert json.loads(output.read_text()) == said


def test_what_does_not_fit_says_what_would(script, capsys):
    code, said, _ = share(capsys, "--capacity", "64KiB", f"{script}:small", f"{script}:wide")
    assert code == share_command.DOES_NOT_FIT and not said["fits"]
    least = said["minimum_capacity_bytes"]
    assert share(capsys, "--capacity", str(least), "--steps", "1", f"{script}:small", f"{script}:wide")[0] == 0


def test_a_program_that_fails_is_named_and_the_others_go_on(script, capsys):
    code, said, error = share(capsys, "--capacity", "4MiB", "--steps", "3", f"{script}:broken", f"{script}:small")
    assert code == 2 and error.startswith("ebbtide: jobs.py:broken: RuntimeError: op ") and error.endswith("the others have gone on\n")
    assert [(job["model"], job["iterations"]) for job in said["jobs"]] == [("jobs.py:small", 3), ("jobs.py:broken", 0)]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--capacity", "1GiB", "jobs"], "jobs: expected SCRIPT.py:function"),
    (["--capacity", "1GiB", "no.py:f"], "no.py: no such file"),
    (["--capacity", "much", "no.py:f"], "much"),
    (["--capacity", "1GiB", "--weights", "1,2", "no.py:f"], "--weights 1,2: expected 1 numbers, one for each job"),
])
def test_what_is_refused(arguments, message, capsys):
    code, said, error = share(capsys, *arguments)
    assert code == 2 and said is None and message in error and error.count("\n") == 1
