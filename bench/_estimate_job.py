"""One plain training of a built-in model's twin on the CUDA device, with the defaults of torch.optim. It also
runs where a GPU is.

    python bench/_estimate_job.py MODEL OPTIMIZER BATCH [--image-size N] [--seq-len N]

Gradients are set to none when an iteration begins. Weights are left as the allocator gives them."""

import argparse

from _uninitialised import Uninitialised
from ebbtide import twins

ITERATIONS = 3


def tell_that_nothing_is_packed():
    """Where kernels are skipped, zeros are read back. transformers reads one value: whether each row of a batch is one
    sequence. These are, so it shall see that, after the same allocations; else it would build masks for packed ones."""
    import transformers.masking_utils as masks

    look = masks.find_packed_sequence_indices

    def answer(position_ids):
        look(position_ids)

    masks.find_packed_sequence_indices = answer


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
    if options.model in twins.TRANSFORMERS:
        tell_that_nothing_is_packed()
    with Uninitialised():
        model, loss_fn, _, batch = twins.build(options.model, options.batch, options.image_size, options.seq_len,
                                               optimizer="none", device="cpu")
    model.to("cuda")
    train(model, loss_fn, twins.OPTIMIZERS[options.optimizer](model.parameters()), batch)


if __name__ == "__main__":
    main()
