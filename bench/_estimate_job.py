"""One plain training of a built-in model's twin on the CUDA device, with the defaults of torch.optim. Nothing in it knows
of the phantom.

    python bench/_estimate_job.py MODEL OPTIMIZER BATCH [--image-size N] [--seq-len N]

Gradients are set to none when an iteration begins. Weights are left as the allocator gives them."""

import argparse

from _uninitialised import Uninitialised
from ebbtide import twins

ITERATIONS = 3


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
