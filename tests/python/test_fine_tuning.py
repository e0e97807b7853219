"""Frozen parameters, LoRA, gradient accumulation and activation checkpointing: built-in models against the steps of
the PyTorch models that they stand for, which freeze, adapt, sum up and recompute by PyTorch's own means."""

import json
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from support.command_line import HAS_PHANTOM, PROGRAM  # noqa: E402
from support.zoo_figures import flags_of, inspect  # noqa: E402

IMAGE = {"batch_size": 3, "image_size": 96, "classes": 10}
TOKENS = {"batch_size": 3, "seq_len": 48}
RESNET_BLOCKS = "layer?.?"

ON_CPU = {
    "frozen stem": {"name": "resnet18", "freeze": ["conv1", "bn1", "layer1.*", "layer2*"], **IMAGE},
    "two batches, tied words": {"name": "distilgpt2", "accumulate": 2, **TOKENS},
    "lora": {"name": "bert-base", "lora": 8, **TOKENS},
    "blocks": {"name": "distilgpt2", "checkpoint": True, **TOKENS},
}
ON_CUDA = {
    "resnet18 frozen stem": {"name": "resnet18", "freeze": ["conv1", "bn1", "layer1.*", "layer2*"], **IMAGE},
    "resnet50 frozen norms": {"name": "resnet50", "freeze": ["*bn*", "*downsample.1*"], "optimizer": "adam", **IMAGE},
    "densenet121 frozen blocks": {"name": "densenet121", "freeze": ["features.denseblock[12]"], **IMAGE},
    "vgg11 frozen features": {"name": "vgg11", "freeze": ["features"], "optimizer": "adam", **IMAGE},
    "bert frozen half": {"name": "bert-base", "freeze": ["bert.embeddings", "bert.encoder.layer.[0-5]"], **TOKENS},
    "gpt2 frozen words and norms": {"name": "distilgpt2", "freeze": ["*.wte*", "*.ln_*"], "optimizer": "adamw", **TOKENS},
    "resnet18 three batches": {"name": "resnet18", "accumulate": 3, **IMAGE},
    "vgg11 two batches": {"name": "vgg11", "accumulate": 2, "optimizer": "adam", **IMAGE},
    "gpt2 two batches": {"name": "distilgpt2", "accumulate": 2, **TOKENS},
    "gpt2 lora": {"name": "distilgpt2", "lora": 8, "optimizer": "adamw", **TOKENS},
    "bert lora": {"name": "bert-base", "lora": 8, **TOKENS},
    "bert lora bf16": {"name": "bert-base", "lora": 8, "autocast": "bf16", **TOKENS},
    "t5 lora": {"name": "t5-small", "lora": 4, **TOKENS},
    "llama lora": {"name": "llama-3.2-1b", "lora": 16, "lora_targets": ["o_proj", "down_proj"], **TOKENS},
    "resnet50 blocks": {"name": "resnet50", "checkpoint": RESNET_BLOCKS, "optimizer": "momentum", **IMAGE},
    "vgg11 features": {"name": "vgg11", "checkpoint": "features", **IMAGE},
    "mobilenet_v2 blocks": {"name": "mobilenet_v2", "checkpoint": "features.[1-9]*", **IMAGE},
    "gpt2 blocks": {"name": "distilgpt2", "checkpoint": True, **TOKENS},
    "bert blocks": {"name": "bert-base", "checkpoint": True, **TOKENS},
    "bert blocks bf16": {"name": "bert-base", "checkpoint": True, "autocast": "bf16", **TOKENS},
    "gpt-neo blocks": {"name": "gpt-neo-125m", "checkpoint": True, **TOKENS},
    "opt blocks": {"name": "opt-125m", "checkpoint": True, **TOKENS},
    "t5 blocks": {"name": "t5-small", "checkpoint": True, **TOKENS},
    "llama blocks": {"name": "llama-3.2-1b", "checkpoint": True, **TOKENS},
    "gpt2 all at once": {"name": "distilgpt2", "accumulate": 2, "lora": 4, "checkpoint": True, "autocast": "bf16",
                         "optimizer": "adamw", **TOKENS},
    "resnet18 all at once": {"name": "resnet18", "accumulate": 2, "freeze": ["conv1", "bn1", "layer1"],
                             "checkpoint": RESNET_BLOCKS, "optimizer": "adam", **IMAGE},
}
# torch's counter takes every filter of a grouped convolution's backward for a whole one.
GROUPED = ("mobilenet_v2",)


def file_name(case):
    return case.replace(" ", "-").replace(",", "") + ".json"


def captured(cases, device, folder, *prefix):
    program = pathlib.Path(__file__).parent / "programs" / "capture_fine_tuning.py"
    jobs = {file_name(case): arguments for case, arguments in cases.items()}
    done = subprocess.run([*prefix, sys.executable, program, device, folder, json.dumps(jobs)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return captured(ON_CPU, "cpu", tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="module")
def on_cuda(tmp_path_factory):
    if not HAS_PHANTOM:
        pytest.skip("the build has no phantom GPU")
    return captured(ON_CUDA, "cuda", tmp_path_factory.mktemp("cuda"), PROGRAM, "dryrun", "-q", "--")


def check(arguments, device, path):
    arguments = dict(arguments)
    name = arguments.pop("name")
    ours, torchs = inspect(name, device=device, **arguments), inspect(path)
    assert ours["parameters"] == torchs["parameters"]
    assert ours["forward_flops"] == torchs["forward_flops"]
    if name not in GROUPED:
        assert ours["flops_by_phase"] == torchs["flops_by_phase"]
    for kind in ("gradient", "optimizer_state"):
        assert ours["bytes_by_kind"].get(kind, 0) == torchs["bytes_by_kind"].get(kind, 0)
    assert ours["saved_bytes"] == pytest.approx(torchs["saved_bytes"], rel=0.001)
    assert ours["peak_bytes"] == pytest.approx(torchs["peak_bytes"], rel=0.002)


@pytest.mark.parametrize("case", ON_CPU)
def test_memory_and_work_are_those_of_the_step_captured_on_the_cpu(case, on_cpu):
    check(ON_CPU[case], "cpu", on_cpu / file_name(case))


@pytest.mark.parametrize("case", ON_CUDA)
def test_memory_and_work_are_those_of_the_step_captured_on_cuda(case, on_cuda):
    check(ON_CUDA[case], "cuda", on_cuda / file_name(case))


@pytest.mark.parametrize("model, flags", [
    ("resnet50", ["--checkpoint"]), ("bert-base", ["--checkpoint", "--seq-len=128"]), ("gpt2", ["--lora=8", "--seq-len=128"]),
    ("vgg16", ["--freeze=features"])])
def test_it_takes_less(model, flags):
    sizes = [flag for flag in flags if flag.startswith("--seq-len")]
    plain, less = (peak(model, words) for words in (sizes, flags))
    assert less < 0.8 * plain


# What PyTorch's own allocator holds at the peak of three updates.
@pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")
@pytest.mark.parametrize("arguments", [
    {"name": "resnet50", "freeze": ["conv1", "bn1", "layer[12]"], "optimizer": "adam", "batch_size": 32},
    {"name": "resnet50", "accumulate": 2, "optimizer": "adam", "batch_size": 32},
    {"name": "resnet50", "checkpoint": RESNET_BLOCKS, "optimizer": "adam", "batch_size": 32},
    {"name": "gpt2", "lora": 8, "optimizer": "adamw", "batch_size": 8, "seq_len": 128},
    {"name": "bert-base", "lora": 8, "checkpoint": True, "accumulate": 2, "optimizer": "adamw", "batch_size": 8, "seq_len": 128},
], ids=lambda arguments: " ".join(str(word) for word in arguments.items()))
def test_the_estimate_is_the_peak_on_the_phantom_gpu(arguments):
    program = pathlib.Path(__file__).parent / "programs" / "train_fine_tuned.py"
    real = answer("dryrun", "--gpu=a100-80gb", "--", sys.executable, program, json.dumps(arguments))
    assert real["exit_code"] == 0
    flags = flags_of({name: value for name, value in arguments.items() if name != "name"})
    ours = answer("estimate", "--gpu=a100-80gb", arguments["name"], *flags)
    for figure in ("peak_reserved_bytes", "peak_allocated_bytes"):
        assert ours[figure] == pytest.approx(real[figure], rel=0.01)


def answer(verb, *words):
    done = subprocess.run([PROGRAM, verb, "--json", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def peak(model, flags):
    return answer("estimate", model, "--batch-size=16", "--optimizer=adam", *flags)["peak_allocated_bytes"]


@pytest.mark.parametrize("words, told", [
    (["resnet18", "--freeze", "layr1.*"], "--freeze layr1.*: matches no parameter of conv1.weight, bn1.weight"),
    (["resnet18", "--freeze", "conv1.wieght"], "did you mean conv1.weight"),
    (["resnet18", "--freeze", "*"], "no parameter is left to train"),
    (["resnet18", "--freeze", ""], "--freeze: expected a pattern"),
    (["resnet18", "--lora", "8"], "expected --lora-targets, of fc"),
    (["gpt2", "--lora", "0"], "--lora: expected a whole number from 1 to 65536, found 0"),
    (["gpt2", "--lora", "8", "--lora-targets", "q_proj"], "--lora-targets q_proj: matches no linear layer of transformer.h.0"),
    (["gpt2", "--lora-targets", "c_attn"], "--lora-targets: expected --lora"),
    (["gpt2", "--accumulate", "0"], "--accumulate: expected a whole number from 1 to 1024, found 0"),
    (["gpt2", "--accumulate", "two"], "found two"),
    (["vgg16", "--checkpoint"], "no repeated blocks; expected --checkpoint=PATTERN, of features"),
    (["vgg16", "--checkpoint=featurs"], "--checkpoint featurs: matches no layer of features"),
    (["gpt2", "--inference", "--accumulate", "2"], "--accumulate: of no use with --inference"),
])
@pytest.mark.parametrize("verb", ["inspect", "estimate", "fit"])
def test_what_cannot_be_is_told_in_one_line(verb, words, told):
    done = subprocess.run([PROGRAM, verb, *words], capture_output=True, text=True)
    assert done.returncode == 2, done.stdout
    assert told in done.stderr and done.stderr.count("\n") == 1, done.stderr
