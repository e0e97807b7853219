"""Regressions of published accuracy, on a few recorded jobs (tests/data/accuracy.json): each prediction is to the byte what it was when
recorded, and still within a published error of what was measured. The jobs were chosen among those within it, so that they say nothing
about how often it is kept: bench/estimate/accuracy.py does, on whole files of measurements."""

import json
import pathlib
import re

import pytest
from support.command_line import run

RECORDED = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data" / "accuracy.json").read_text())
DATA_SETS = ("xmem", "mlp", "timm")
ROWS = [(name, row) for name in DATA_SETS for row in RECORDED[name]["rows"]]


def predicted(name, words):
    """In bytes, as the data set's meter would show it (docs/accuracy.md, "How a row becomes a figure")."""
    done = run("estimate", *words.split(), "--json")
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    peak = answer["total_bytes"] - answer["context_bytes"]
    if name != "xmem":  # the whole card: its constant has the loaded code in it
        return peak - answer["loaded_code_bytes"] + RECORDED[name]["beside_bytes"]
    # The meter of image models took its first reading when the model lay on the device.
    return peak - (answer["reserved_before_training_bytes"] if "--image-size" in words else 0)


@pytest.mark.parametrize("name, row", ROWS, ids=[f"{name} {' '.join(row['estimate'].split()[:3])}" for name, row in ROWS])
def test_a_recorded_job_is_predicted_as_published(name, row):
    found = predicted(name, row["estimate"])
    assert found == row["predicted_bytes"]
    assert abs(found / row["measured_bytes"] - 1) <= RECORDED[name]["within"]


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_bound_is_the_manual_s(name, checkout):
    """The error that recorded rows must keep to is the published one."""
    figures = re.search(rf"^\| {name}, estimate.*\|$", (checkout / "docs" / "accuracy.md").read_text(), re.MULTILINE).group()
    assert f"{RECORDED[name]['within']:.2%}".replace("%", " %") in figures
