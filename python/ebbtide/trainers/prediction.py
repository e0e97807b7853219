"""What a trainer's step will take, and the largest batch of it that fits a GPU, predicted from captures."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import torch

from .. import native
from ..capture.batches import batch_size_of, resized, telling_batches
from ..capture.errors import one_line
from ..errors import BudgetError
from ..estimate.estimate import Capture, Estimate, EstimateOptions, estimate_parts
from ..estimate.pickled_model import Loss, Parts

Gpu = str | os.PathLike[str]
_MOST_CAPTURES = 16  # of a search


@dataclasses.dataclass
class TrainingStep:
    """A step as a trainer takes it: `model` is called with `batch`, and `loss_fn` makes the loss of what it gives (None: it does itself)."""

    model: torch.nn.Module
    loss_fn: Any
    optimizer: torch.optim.Optimizer | None
    batch: Any
    autocast: torch.dtype | None = None
    accumulates: bool = False  # gradients of several batches are added up before an update
    notes: list[str] = dataclasses.field(default_factory=list)  # what is not as the trainer does it

    def parts(self) -> Parts:
        optimizer = "none" if self.optimizer is None else self.optimizer
        return Parts((self.model, Loss(self.loss_fn), optimizer, self.batch), {"autocast": self.autocast, "accumulates": self.accumulates})


@dataclasses.dataclass(frozen=True)
class BatchPrediction:
    """The largest batches of a step on a GPU. `batch_size` is the one to take."""

    gpu: str
    present: int  # what the step has now
    batch_size: int  # safe: with the margin of estimates
    largest: int  # the largest that is known to fit if all goes as estimated
    notes: tuple[str, ...] = ()


def gpu_of(gpu: Gpu | None) -> Gpu:
    """None: the one that PyTorch sees."""
    if gpu is not None:
        return gpu
    if not torch.cuda.is_available():
        raise ValueError("gpu None: PyTorch sees none here; expected the name of one that `ebbtide gpus` lists, as gpu='a100-40gb'")
    product = torch.cuda.get_device_name()
    for name in native.Profile.names():
        if native.Profile(name).product == product:
            return name
    raise ValueError(f"gpu None: there is no profile of the {product!r} here; expected the name of one that `ebbtide gpus` lists, or a profile's path")


def estimate_step(step: TrainingStep, gpu: Gpu) -> Estimate:
    made = estimate_parts(step.parts(), EstimateOptions(gpu=gpu, zero_grad="end"))
    made.add_notes(step.notes)
    return made


def largest_batch(step: TrainingStep, gpu: Gpu) -> BatchPrediction:
    """From captures of three batches, or of a few more where those do not tell all others. BudgetError where not one sample fits."""
    capture = Capture(step.parts())
    first, *others = capture(any_batch=True)
    try:
        said = native.fit(first, gpus=[os.fspath(gpu)], others=others).to_dict()["gpus"][0]
        name, safe, largest = said["gpu"], said["max_batch_safe"] or 0, said["max_batch"] or 0
        notes: tuple[str, ...] = ()
    except ValueError as error:
        sizes = telling_batches(batch_size_of(step.batch))
        search = _Search(step, gpu, dict(zip(sizes, (first, *others))))
        name, safe = search.gpu, search.largest("safe_bytes")
        largest = max((size for size, made in search.made.items() if made["fits"]), default=0)
        notes = (f"found by captures of {len(search.made)} batches, as three do not tell all others ({one_line(error)}); what lies between "
                 "them is taken to grow with the batch",)
    if not largest:
        raise BudgetError(f"{name}: not one sample fits; an estimate says where the memory goes, `ebbtide advise` what helps", None)
    return BatchPrediction(name, batch_size_of(step.batch), safe, largest, (*step.notes, *capture.notes, *notes))


class _Search:
    """Estimates of single batches, looked for where a line through those that are known says that the limit lies."""

    def __init__(self, step: TrainingStep, gpu: Gpu, graphs: dict[int, native.Graph]) -> None:
        self._step, self._asked = step, os.fspath(gpu)
        self.made = {size: self._estimate(graph) for size, graph in graphs.items()}
        said = next(iter(self.made.values()))
        self.gpu, self._capacity = str(said["gpu"]), int(said["capacity_bytes"])

    def _estimate(self, graph: native.Graph) -> dict[str, Any]:
        return native.estimate(graph, gpu=self._asked, zero_grad="end").to_dict()

    def _at(self, size: int) -> dict[str, Any]:
        if size not in self.made:
            [graph] = Capture(dataclasses.replace(self._step, batch=resized(self._step.batch, size)).parts())(any_batch=False)
            self.made[size] = self._estimate(graph)
        return self.made[size]

    def largest(self, field: str) -> int:
        """A batch whose figure the GPU has, while it has not that of the next one, or of one that is at most 2 % larger."""
        low = 0
        for _ in range(_MOST_CAPTURES):
            low = max((size for size, said in self.made.items() if said[field] <= self._capacity), default=0)
            high = min((size for size, said in self.made.items() if said[field] > self._capacity), default=0)
            step = max(1, low // 50)
            if high and high - low <= step:
                break
            # A line through the two batches that lie nearest says where the limit is; from there on in steps of 2 %.
            first, second = sorted(sorted(self.made, key=lambda size: abs(self.made[size][field] - self._capacity))[:2])
            per_sample = max((self.made[second][field] - self.made[first][field]) / (second - first), 1)
            guess = second + math.floor((self._capacity - self.made[second][field]) / per_sample)
            guess = max(guess, low + step)
            self._at(min(guess, high - step) if high else guess)
        return low
