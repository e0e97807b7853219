"""One plain training of a built-in model's twin on the CUDA device, with the defaults of torch.optim. Nothing in it knows
of the phantom.

    python bench/_estimate_job.py MODEL OPTIMIZER BATCH [--image-size N] [--seq-len N]

Gradients are set to none when an iteration begins. Weights are left as the allocator gives them."""

import argparse

import torch
from ebbtide import twins
from torch.overrides import TorchFunctionMode

ITERATIONS = 3


class Uninitialised(TorchFunctionMode):
    """Calls that fill a tensor in place return it as it is."""

    NAMES = {"normal_", "uniform_", "zero_", "fill_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_",
             "xavier_uniform_", "xavier_normal_", "constant_", "ones_", "zeros_", "mul_", "add_", "clamp_", "erfinv_"}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        target = args[0] if args else kwargs.get("tensor")
        if getattr(func, "__name__", "") in self.NAMES and isinstance(target, torch.Tensor):
            return target
        return func(*args, **kwargs)


def train(model, loss_fn, optimizer, batch):
    """As users write it: results of one iteration are referenced until those of the next take their names."""
    for _ in range(ITERATIONS):
        optimizer.zero_grad()
        if isinstance(batch, dict):
            inputs = {name: tensor.to("cuda") for name, tensor in batch.items()}
            out = model(**inputs)
            loss = out.loss
        else:
            x, target = (tensor.to("cuda") for tensor in batch)
            out = model(x)
            loss = loss_fn(out, target)
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("optimizer")
    parser.add_argument("batch", type=int)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--seq-len", type=int)
    options = parser.parse_args()
    with Uninitialised():
        model, loss_fn, _, batch = twins.build(options.model, options.batch, options.image_size, options.seq_len,
                                               optimizer="none", device="cpu")
    model.to("cuda")
    train(model, loss_fn, twins.OPTIMIZERS[options.optimizer](model.parameters()), batch)


if __name__ == "__main__":
    main()
