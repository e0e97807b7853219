"""What a step_fn(config) gives, and what its training takes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from .. import native
from ..arguments import bytes_of
from ..capture.step import CaptureOptions, capture_step
from ..estimate.estimate import EstimateOptions, estimate_parts
from ..estimate.pickled_model import Loss, Parts

StepFunction = Callable[[Any], Any]
_EXPECTED = "expected (model, loss_fn, optimizer, batch), and batches behind them where it does not train on that one alone"


@dataclasses.dataclass
class Training:
    """Of one trial. `batches`: an iterable, gone through again when it ends; None: `batch`, again and again."""

    model: torch.nn.Module
    loss_fn: Any
    optimizer: torch.optim.Optimizer
    batch: Any
    batches: Iterable[Any] | None = None


def training_of(step_fn: StepFunction, config: Mapping[str, Any], seed: int) -> Training:
    """What step_fn(config) makes with torch's random numbers from `seed` on."""
    torch.manual_seed(seed)
    made = step_fn(dict(config))
    if not isinstance(made, (tuple, list)) or len(made) not in (4, 5):
        what = f"{len(made)} values" if isinstance(made, (tuple, list)) else f"one {type(made).__name__}"
        raise ValueError(f"step_fn returns {what}; {_EXPECTED}")
    return Training(*made)


@dataclasses.dataclass(frozen=True)
class Card:
    """A GPU as trials see it: a profile, or for device "cpu" a part of the CPU's memory that stands for one."""

    name: str
    memory_bytes: int
    accelerator: str | None = None  # Ray's type of it, where it has one
    profile: str | None = None  # None: the CPU's

    @staticmethod
    def of(gpu: str | os.PathLike[str]) -> Card:
        profile = native.Profile(os.fspath(gpu))
        return Card(profile.name, profile.memory_bytes, ACCELERATORS.get(profile.name), os.fspath(gpu))

    @staticmethod
    def of_cpu(capacity: int | str) -> Card:
        return Card(f"cpu, {capacity}", bytes_of(capacity, "capacity"))


# What Ray labels nodes with (ray.io/accelerator-type), by our profiles. Ray's own detection tells no sizes apart; where an administrator has, the
# label with a size is as good.
ACCELERATORS = {
    "a10": "A10G", "a100-40gb": "in(A100,A100-40G)", "a100-80gb": "in(A100,A100-80G)", "h100-80gb": "H100", "l4": "L4", "p100": "P100", "t4": "T4",
    "v100-16gb": "V100", "v100-32gb": "V100",
}


def predicted_bytes(training: Training, card: Card, seen: dict[tuple[str, str], int]) -> int:
    """What a training will take of the card, with the margin of estimates; of the CPU's memory, what its step has at its peak. `seen` keeps it
    by graph."""
    if card.profile is None:
        captured = capture_step(training.model, training.loss_fn, training.optimizer, training.batch, CaptureOptions(device="cpu"))
        graph = native.Graph(json.dumps(captured.graph), captured.graph["name"])
        key = (graph.hash, card.name)
        if key not in seen:
            seen[key] = native.plan(graph, budget="100%", policy="none", bound=False).to_dict()["plain_peak_bytes"]
        return seen[key]
    parts = Parts((training.model, Loss(training.loss_fn), training.optimizer, training.batch), {})
    return int(estimate_parts(parts, EstimateOptions(gpu=card.profile)).safe_bytes)
