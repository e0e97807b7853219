"""The CUDA column of the gradient rules and of the optimizers: built-in models against steps captured on the phantom GPU."""

import json
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from support.command_line import HAS_PHANTOM, PROGRAM  # noqa: E402
from support.zoo_figures import CAPTURED, inspect  # noqa: E402

from ebbtide import torch_models  # noqa: E402

pytestmark = pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")

# cuDNN's LSTM cannot be captured: torch's fakes do not run it.
MODELS = {name: sizes for name, sizes in CAPTURED.items() if name != "lstm"}
OPTIMIZERS = [name for name in torch_models.OPTIMIZERS if name != "none"]


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    jobs = {f"{name}.json": {"name": name, **sizes} for name, sizes in MODELS.items()}
    jobs |= {f"mlp-{name}.json": {"name": "mlp", "batch_size": 3, "optimizer": name} for name in OPTIMIZERS}
    program = pathlib.Path(__file__).parent / "programs" / "capture_torch_models.py"
    done = subprocess.run([PROGRAM, "dryrun", "-q", "--", sys.executable, program, folder, json.dumps(jobs)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_that_of_the_step_captured_on_cuda(name, captures):
    built_in = inspect(name, device="cuda", **MODELS[name])
    captured = inspect(captures / f"{name}.json")
    assert captured["meta"]["device"].startswith("cuda")
    assert built_in["parameters"] == captured["parameters"]
    assert built_in["saved_bytes"] == pytest.approx(captured["saved_bytes"], rel=0.01)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.01)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_are_those_captured_on_cuda(optimizer, captures):
    built_in = inspect("mlp", batch_size=3, optimizer=optimizer, device="cuda")
    captured = inspect(captures / f"mlp-{optimizer}.json")
    assert built_in["bytes_by_kind"].get("optimizer_state", 0) == captured["bytes_by_kind"].get("optimizer_state", 0)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.01)


def test_every_model_was_captured_on_cuda(captures):
    """What was asked for is there, of CUDA's kernels, and no capture stands in for another."""
    names = {path.stem for path in captures.iterdir()}
    assert names == {*MODELS, *(f"mlp-{name}" for name in OPTIMIZERS)}
    figures = {name: inspect(captures / f"{name}.json") for name in MODELS}
    assert all(figure["meta"]["device"].startswith("cuda") for figure in figures.values())
    assert len({figure["parameters"] for figure in figures.values()}) == len(MODELS)
