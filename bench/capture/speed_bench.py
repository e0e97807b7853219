"""How long a capture takes, for the models that users bring most, beside torch's own tracer (make_fx over forward and
backward, no update) in the same run. The exit code is 1 where one takes longer than the limit. --all: every built-in model; --save FOLDER: keep the graphs."""

import argparse
import os
import sys
import time
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import stateless

import ebbtide
from ebbtide import torch_models

MODELS = ("vgg16", "resnet50", "inception_v3", "densenet121", "bert-base", "gpt2", "lstm", "unet", "convnext_tiny", "llama-3.2-1b")
LIMIT = 15.0  # seconds


def peer_seconds(model, loss_fn, batch):
    """make_fx of the same forward and backward pass; None where it fails."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor):
        with mode:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
        return made.requires_grad_(tensor.requires_grad)

    parameters = {n: fake(p) for n, p in model.named_parameters()}
    buffers = {n: fake(b) for n, b in model.named_buffers()}
    batch = {n: fake(t) for n, t in batch.items()} if isinstance(batch, dict) else tuple(fake(t) for t in batch)

    def step(parameters, buffers, batch):
        with stateless._reparametrize_module(model, {**parameters, **buffers}, tie_weights=True):
            loss = model(**batch).loss if isinstance(batch, dict) else loss_fn(model(*batch[:-1]), batch[-1])
        return torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)

    FakeTensorMode.cache_clear()
    started = time.perf_counter()
    try:
        with mode:
            make_fx(step)(parameters, buffers, batch)
    except Exception:
        return None
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--save", metavar="FOLDER")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--optimizer", default="adam")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    ebbtide.capture(*torch_models.build("mlp", batch_size=2))  # the first use of torch's shape rules loads them
    print(f"{'model':30} {'seconds':>8} {'CPU s':>8} {'make_fx s':>10} {'ratio':>6} {'ops':>7} {'storages':>9} {'parameters':>14}")
    slowest = 0.0
    for name in torch_models.NAMES if options.all else MODELS:
        model, loss_fn, optimizer, batch = torch_models.build(name, batch_size=options.batch_size, optimizer=options.optimizer)
        FakeTensorMode.cache_clear()  # torch keeps the shapes that it has worked out
        cpu = time.process_time()
        captured = ebbtide.capture(model, loss_fn, optimizer, batch)
        cpu = time.process_time() - cpu
        captured.graph["name"] = name
        if options.save:
            os.makedirs(options.save, exist_ok=True)
            captured.save(os.path.join(options.save, f"{name}.json"))
        peer = peer_seconds(model, loss_fn, batch)
        shown = f"{peer:10.1f} {captured.seconds / peer:6.2f}" if peer else f"{'fails':>10} {'':>6}"
        parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        graph = captured.graph
        print(
            f"{name:30} {captured.seconds:8.1f} {cpu:8.1f} {shown} {len(graph['ops']):7} {len(graph['storages']):9} {parameters:14,}",
            flush=True,
        )
        slowest = max(slowest, captured.seconds)
    print(f"slowest {slowest:.1f} s, limit {LIMIT:.0f} s: {'met' if slowest <= LIMIT else 'NOT MET'}")
    return 0 if slowest <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
