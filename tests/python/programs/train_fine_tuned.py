"""Trains a fine-tuned PyTorch model on the CUDA device: train_fine_tuned.py JSON, arguments as capture_fine_tuning.py
has them. As users write it: what one batch gave is referenced until the next one's takes its name."""

import json
import pathlib
import sys
import warnings

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench" / "estimate"))
import fine_tuned  # noqa: E402
from _phantom_job import tell_that_nothing_is_packed  # noqa: E402
from _uninitialised import Uninitialised  # noqa: E402

DTYPES = {"bf16": torch.bfloat16}


def to_gpu(batch):
    if isinstance(batch, dict):
        return {name: tensor.to("cuda") for name, tensor in batch.items()}
    return tuple(tensor.to("cuda") for tensor in batch)


def train(optimizer="sgd", accumulate=1, autocast=None, **arguments):
    tell_that_nothing_is_packed()
    with Uninitialised():
        model, loss_fn, batch = fine_tuned.build(device="cpu", **arguments)
    model.to("cuda")
    trained = fine_tuned.optimizer_of(model, optimizer)
    for _ in range(3):
        trained.zero_grad()
        for _ in range(accumulate):
            inputs = to_gpu(batch)
            with torch.autocast("cuda", DTYPES.get(autocast), enabled=autocast is not None):
                out, loss = fine_tuned.loss_of(model, loss_fn, inputs)
            if accumulate > 1:
                loss = loss / accumulate
            loss.backward()
        trained.step()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    train(**json.loads(sys.argv[1]))
