"""Training within a budget on several ranks: real processes, gloo, the same bits as without Ebbtide on the same ranks."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

JOB = pathlib.Path(__file__).parent / "programs" / "gloo_ranks.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", JOB, "70%,50%", folder / "out"]
    run = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads((folder / f"out.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("budget", ["70%", "50%"])
@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_compiled_training_on_ranks_has_the_same_bits_within_the_budget(outcomes, layout, budget):
    for outcome in outcomes:
        is_same, reports = outcome[f"{layout} {budget}"]
        assert is_same
        assert reports and all(peak <= limit < plain for peak, limit, plain in reports)


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_a_whole_step_on_ranks_is_refused_and_the_way_that_fits_named(outcomes, layout):
    for outcome in outcomes:
        said = outcome[f"step {layout}"]
        assert ("DistributedDataParallel" if layout == "ddp" else "DTensor") in said
        assert "torch.compile(model, backend='ebbtide')" in said
