"""Estimates of programs beside the same programs on the phantom GPU: cuDNN's recurrent networks, CTC loss, fused and traced optimizers, and ops
whose scratch memory no rule knows."""

import json
import pathlib
import sys

import pytest

pytest.importorskip("torch")

from support.command_line import HAS_PHANTOM, result_of, run  # noqa: E402

pytestmark = pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")
PROGRAMS = pathlib.Path(__file__).parent / "programs" / "estimated.py"


@pytest.mark.parametrize("name", ["lstm", "gru", "ctc"])
def test_reserved_is_what_torch_reserves(name):
    ours = result_of("estimate", f"{PROGRAMS}:{name}", "--gpu", "a100-40gb")
    real = json.loads(run("dryrun", "--json", "--gpu", "a100-40gb", "--", sys.executable, "-W", "ignore", PROGRAMS, name).stdout)
    assert ours["not_counted"] == []
    assert ours["peak_reserved_bytes"] == real["peak_reserved_bytes"]


def test_scratch_that_no_rule_knows_is_measured_on_the_phantom(tmp_path):
    result_of("capture", f"{PROGRAMS}:sorting", "--device", "cuda", "-o", tmp_path / "step.json")
    graph = json.loads((tmp_path / "step.json").read_text())
    scratch = {op["kind"]: op.get("workspace", 0) for op in graph["ops"] if op["phase"] == "forward"}
    assert scratch["mse_loss"] > 4 * 2048 * 4096 and scratch["sort"] > 0  # the losses of all numbers, before their mean
    assert result_of("estimate", tmp_path / "step.json")["not_counted"] == []


def test_scratch_of_kernels_that_were_not_run_is_named(tmp_path):
    result_of("capture", f"{PROGRAMS}:sorting", "--device", "cpu", "-o", tmp_path / "step.json")
    assert "scratch of aten::sort" in result_of("estimate", tmp_path / "step.json")["not_counted"]
