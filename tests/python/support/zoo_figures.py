"""The figures of a built-in model, from `ebbtide inspect` and from the PyTorch model that it stands for: for the test
and the benchmark that compare the two."""

import json
import pathlib
import subprocess
import tempfile
import warnings

import torch
from torch._subclasses import FakeTensorMode
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

import ebbtide
from ebbtide import torch_models
from support.command_line import PROGRAM

# Sizes that keep captures quick and differ from the defaults. `make bench` compares all models at their defaults.
IMAGE = {"batch_size": 3, "image_size": 96, "classes": 10}
TOKENS = {"batch_size": 3, "seq_len": 48}
CAPTURED = {
    "alexnet": IMAGE, "vgg11": IMAGE, "vgg16": IMAGE, "resnet18": IMAGE, "resnet50": IMAGE, "densenet121": IMAGE,
    "inception_v3": {"batch_size": 2, "classes": 10}, "inception_v4": IMAGE, "mobilenet_v2": IMAGE,
    "mobilenet_v3_small": IMAGE, "mobilenet_v3_large": IMAGE, "mnasnet1_0": IMAGE, "efficientnet_b0": IMAGE,
    "xception": IMAGE, "regnet_x_400mf": IMAGE,
    "regnet_y_400mf": IMAGE, "convnext_tiny": IMAGE, "unet": IMAGE, "lstm": TOKENS, "mlp": {"batch_size": 3},
    "bert-base": TOKENS, "distilgpt2": TOKENS, "gpt-neo-125m": TOKENS, "opt-125m": TOKENS, "t5-small": TOKENS,
    "opt-350m": TOKENS, "llama-3.2-1b": TOKENS, "qwen3-4b": TOKENS, "gemma-2-2b": TOKENS,
}


def flags_of(options):
    """Flags are named as in Python: batch_size=2, inference=True, freeze=["a*", "b*"]."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        flags += [flag] if value is True else [f"{flag}={v}" for v in (value if isinstance(value, list) else [value])]
    return flags


def inspect(model, **options):
    """What `ebbtide inspect --json` says."""
    done = subprocess.run([PROGRAM, "inspect", str(model), "--json", *flags_of(options)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def torch_parameters(name):
    """How many numbers the PyTorch model trains."""
    model = torch_models.build(name, batch_size=1, optimizer="none")[0]
    return sum(parameter.numel() for parameter in model.parameters())


def counted_flops(name, **sizes):
    """Forward FLOPs by torch's own counter, over tensors without data: on the meta device, or fakes for language models,
    since transformers takes care not to ask those for values (OPT does, of a number that it draws on the CPU)."""
    model, _, _, batch = torch_models.build(name, optimizer="none", **sizes)
    with FlopCounterMode(display=False) as counter:
        if not isinstance(batch, dict):
            model(*batch[:-1])
        elif name.startswith("opt"):
            model(**batch)
        else:
            with FakeTensorMode():
                state = dict(model.named_parameters()) | dict(model.named_buffers())
                fakes = {name: torch.empty(t.shape, dtype=t.dtype) for name, t in (state | batch).items()}
                functional_call(model, {name: fakes[name] for name in state}, kwargs={name: fakes[name] for name in batch})
    return counter.get_total_flops()


def inspect_capture(name, **sizes):
    """What `ebbtide inspect --json` says of the PyTorch model's captured step, and the seconds that the capture took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captured = ebbtide.capture(*torch_models.build(name, **sizes))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.json"
        captured.save(path)
        return inspect(path), captured.seconds
