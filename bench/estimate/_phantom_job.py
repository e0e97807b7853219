"""One plain training of the PyTorch model that a built-in one stands for on the CUDA device, with the defaults of torch.optim. It also runs where
a GPU is.

    python bench/estimate/_phantom_job.py MODEL OPTIMIZER BATCH [--image-size N] [--seq-len N] [--autocast bf16|fp16]
        [--zero-grad start|before-backward|end] [--inference]

Weights are left as the allocator gives them."""

import argparse
import contextlib

import torch
from _uninitialised import Uninitialised

from ebbtide import torch_models
from ebbtide.commands.verify_job import tell_that_nothing_is_packed, train

ITERATIONS = 3
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def infer(model, batch, autocast):
    with torch.no_grad():
        for _ in range(ITERATIONS):
            if isinstance(batch, dict):
                inputs = {name: tensor.to("cuda") for name, tensor in batch.items()}
                with autocast():
                    out = model(**inputs)
            else:
                (x,) = (tensor.to("cuda") for tensor in batch)
                with autocast():
                    out = model(x)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("optimizer")
    parser.add_argument("batch", type=int)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--autocast", choices=DTYPES)
    parser.add_argument("--zero-grad", choices=("start", "before-backward", "end"), default="start")
    parser.add_argument("--inference", action="store_true")
    options = parser.parse_args()
    if options.model in torch_models.TRANSFORMERS:
        tell_that_nothing_is_packed()
    with Uninitialised():
        model, loss_fn, _, batch = torch_models.build(options.model, options.batch, options.image_size, options.seq_len,
                                               optimizer="none", device="cpu", inference=options.inference)
    model.to("cuda")

    def autocast():
        return torch.autocast("cuda", DTYPES[options.autocast]) if options.autocast else contextlib.nullcontext()

    if options.inference:
        infer(model, batch, autocast)
    else:
        optimizer = torch_models.OPTIMIZERS[options.optimizer](model.parameters())
        train(model, loss_fn, optimizer, batch, ITERATIONS, autocast, options.zero_grad)


if __name__ == "__main__":
    main()
