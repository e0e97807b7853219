"""Options that change the training step: built-in models against the steps of the PyTorch models that they stand for,
captured on the phantom GPU."""

import json
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from support.command_line import HAS_PHANTOM, PROGRAM  # noqa: E402
from support.zoo_figures import CAPTURED, inspect  # noqa: E402

# cuDNN's LSTM cannot be captured: torch's fakes do not run it.
MODELS = [name for name in CAPTURED if name != "lstm"]
CASES = {f"{name} inference": {"name": name, "inference": True} | CAPTURED[name] for name in MODELS}
CASES |= {f"{name} bf16": {"name": name, "autocast": "bf16"} | CAPTURED[name] for name in MODELS}
CASES |= {f"{name} fp16": {"name": name, "autocast": "fp16"} | CAPTURED[name] for name in ("resnet50", "bert-base", "distilgpt2")}


def file_name(case):
    return case.replace(" ", "-") + ".json"


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    if not HAS_PHANTOM:
        pytest.skip("the build has no phantom GPU")
    folder = tmp_path_factory.mktemp("captures")
    jobs = {file_name(case): arguments for case, arguments in CASES.items()}
    program = pathlib.Path(__file__).parent / "programs" / "capture_torch_models.py"
    done = subprocess.run([PROGRAM, "dryrun", "-q", "--", sys.executable, program, folder, json.dumps(jobs)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("case", CASES)
def test_memory_is_that_of_the_captured_step(case, captures):
    arguments = dict(CASES[case])
    built_in = inspect(arguments.pop("name"), device="cuda", **arguments)
    captured = inspect(captures / file_name(case))
    assert built_in["parameters"] == captured["parameters"]
    assert built_in["forward_flops"] == pytest.approx(captured["forward_flops"], rel=0.001)
    assert built_in["saved_bytes"] == pytest.approx(captured["saved_bytes"], rel=0.01)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.01)
