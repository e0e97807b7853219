"""Training programs that know nothing of the phantom, two steps each, under `ebbtide dryrun`."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or CHECKOUT / "build" / "ebbtide")
PROGRAMS = pathlib.Path(__file__).parent / "programs"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(not (EBBTIDE.parent / "phantom" / "cu13").is_dir(), reason="the build has no phantom GPU")


def dryrun(program, *arguments, gpu="a100-40gb", **variables):
    """The answer of dryrun, with the number of parameters that the program printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    command = [EBBTIDE, "dryrun", "--json", "--gpu", gpu, "--", sys.executable, "-W", "ignore", PROGRAMS / program, *arguments]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                         env={**kept, "OMP_NUM_THREADS": "1", **variables})
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert answer["exit_code"] == 0 and answer["oom"] is False
    assert answer["steps"] == 2
    assert answer["not_modelled"] == {}
    assert answer["peak_allocated_bytes"] <= answer["peak_reserved_bytes"]
    assert answer["peak_reserved_bytes"] + answer["context_bytes"] <= answer["total_bytes"]
    answer["pinned_peak_bytes"] = max(process["pinned_peak_bytes"] for process in answer["processes"])
    answer["parameters"] = next(int(line.split()[1]) for line in run.stderr.splitlines() if line.startswith("parameters "))
    return answer


# Bytes that last from step to step for each fp32 parameter: itself, its gradient and the state.
@pytest.mark.parametrize("model, optimizer, bytes_per_parameter", [
    ("resnet50", "SGD", 12), ("resnet50", "Adam", 16), ("vgg16", "SGD", 12), ("vgg16", "Adam", 16)])
def test_image_classifiers(model, optimizer, bytes_per_parameter):
    answer = dryrun("images.py", model, optimizer, 128)
    # What a sample more takes: at least the output of the first convolution and of what follows it, in fp32.
    first = {"resnet50": 64 * 112 * 112 * 4 * 2, "vgg16": 64 * 224 * 224 * 4}[model]
    assert answer["peak_allocated_bytes"] > 128 * first + answer["parameters"] * bytes_per_parameter


def test_mixed_precision_takes_less():
    plain = dryrun("images.py", "resnet50", "SGD", 64)
    mixed = dryrun("images.py", "resnet50", "SGD", 64, "--amp")
    assert 0.4 * plain["peak_allocated_bytes"] < mixed["peak_allocated_bytes"] < 0.75 * plain["peak_allocated_bytes"]


def test_a_loader_with_workers_and_pinned_memory():
    plain = dryrun("images.py", "resnet18", "SGD", 16)
    loaded = dryrun("images.py", "resnet18", "SGD", 16, "--loader")
    assert loaded["pinned_peak_bytes"] >= 16 * 3 * 224 * 224 * 4
    assert abs(loaded["peak_allocated_bytes"] - plain["peak_allocated_bytes"]) <= 2 * 16 * 3 * 224 * 224 * 4


@pytest.mark.parametrize("model", ["bert", "gpt2"])
def test_language_models_with_checkpointing(model):
    plain = dryrun("text.py", model)
    checkpointed = dryrun("text.py", model, "--checkpointing")
    assert plain["peak_allocated_bytes"] > plain["parameters"] * 16
    assert checkpointed["peak_allocated_bytes"] < plain["peak_allocated_bytes"]


def test_recurrent_layers():
    answer = dryrun("layers.py", "lstm")
    assert answer["peak_allocated_bytes"] > answer["parameters"] * 12


def test_checkpoints_offload_and_one_rank():
    width, batch, blocks = 1024, 4096, 6
    activation = batch * width * 4
    answers = {what: dryrun("layers.py", what) for what in ("plain", "checkpoint", "save_on_cpu", "ddp")}
    plain = answers["plain"]["peak_allocated_bytes"]
    # A block saves its linear layers' inputs and outputs: four activations, of which checkpointing keeps the first.
    assert plain - answers["checkpoint"]["peak_allocated_bytes"] >= (blocks - 1) * 3 * activation
    assert plain - answers["save_on_cpu"]["peak_allocated_bytes"] >= (blocks - 1) * 4 * activation
    assert answers["save_on_cpu"]["pinned_peak_bytes"] >= blocks * 4 * activation
    # DistributedDataParallel holds buckets as large as the gradients.
    assert answers["ddp"]["peak_allocated_bytes"] >= plain + answers["ddp"]["parameters"] * 4 * 0.9


def test_expandable_segments_change_what_is_reserved():
    plain = dryrun("images.py", "vgg16", "SGD", 32)
    expandable = dryrun("images.py", "vgg16", "SGD", 32, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    # Without them, a block of up to 1 MiB more than was asked for is handed out whole.
    assert 0.98 * plain["peak_allocated_bytes"] < expandable["peak_allocated_bytes"] <= plain["peak_allocated_bytes"]

    def unused(answer):
        return answer["peak_reserved_bytes"] - answer["peak_allocated_bytes"]

    assert unused(expandable) < unused(plain)


def test_a_job_that_does_not_fit_tells_so():
    command = [EBBTIDE, "dryrun", "--json", "--gpu", "rtx3070", "--", sys.executable, PROGRAMS / "images.py", "resnet50", "SGD", "512"]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    answer = json.loads(run.stdout)
    assert run.returncode == 1 == answer["exit_code"] and answer["oom"] is True
    assert "OutOfMemoryError" in run.stderr
