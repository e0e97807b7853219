"""ebbtide.lightning.BatchSizeFinder and estimate: a LightningModule's own step, predicted before it runs."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from ..errors import CaptureError
from ..estimate.estimate import Estimate
from ..trainers.prediction import BatchPrediction, Gpu, TrainingStep, estimate_step, gpu_of, largest_batch
from .package import Callback, pl

_AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class BatchSizeFinder(Callback):
    """Sets the largest batch that fits before fit() makes its loaders: predicted from captures, so nothing is tried and nothing runs out of memory.

    `gpu` as in ebbtide.hf.estimate. The batch is the attribute `batch_arg_name` of the LightningModule, its hparams or the datamodule, as for
    Lightning's own finder. With several ranks each predicts for itself, and all take the least. `prediction` has the result.
    """

    def __init__(self, gpu: Gpu | None = None, batch_arg_name: str = "batch_size") -> None:
        self._gpu, self._name = gpu, batch_arg_name
        self.prediction: BatchPrediction | None = None
        self.optimal_batch_size: int | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        parsing = _parsing()
        if not parsing.lightning_hasattr(pl_module, self._name):
            raise ValueError(f"batch_arg_name {self._name!r}: neither the model, nor its hparams, nor the datamodule has it; expected where the batch size is")
        if not trainer.fit_loop._data_source.is_module():
            raise ValueError("BatchSizeFinder: the loaders are given to fit(); expected them to be made by the LightningModule or a LightningDataModule, "
                             "which can make them anew for another batch")
        with own_step(trainer, pl_module) as step:
            found = largest_batch(step, gpu_of(self._gpu))
        mine = torch.tensor(max(found.batch_size, 1), device=trainer.strategy.root_device)
        least = int(trainer.strategy.reduce(mine, reduce_op="min"))
        self.prediction, self.optimal_batch_size = found, least
        parsing.lightning_setattr(pl_module, self._name, least)


def estimate(trainer: Any, pl_module: Any, gpu: Gpu | None = None, datamodule: Any = None) -> Estimate:
    """How much memory trainer.fit(pl_module, datamodule) will take on `gpu`, before it is called. Nothing of either changes."""
    with own_step(trainer, pl_module, datamodule) as step:
        return estimate_step(step, gpu_of(gpu))


@contextlib.contextmanager
def own_step(trainer: Any, pl_module: Any, datamodule: Any = None) -> Iterator[TrainingStep]:
    """training_step as it is captured: one optimizer, the first batch of the first loader."""
    if not pl_module.automatic_optimization:
        raise CaptureError("the LightningModule optimizes by itself (automatic_optimization=False); expected training_step to return the loss")
    if next(pl_module.parameters(), None) is None:
        raise CaptureError("the LightningModule has no parameters yet, as where configure_model makes them; expected them made in __init__")
    notes, states = [], (torch.get_rng_state(), random.getstate())
    if trainer.world_size > 1:
        notes.append("one rank with all of the model: what ranks split, and the buffers of their collectives, are not counted (docs/ranks.md)")
    training = pl_module.training
    try:
        batch = _first_batch(pl_module, datamodule if datamodule is not None else getattr(trainer, "datamodule", None))
        pl_module.train()
        precision = str(trainer.precision)
        yield TrainingStep(_StepModule(pl_module), None, _optimizer(pl_module), {"batch": batch}, autocast=_AUTOCAST.get(precision),
                           accumulates=trainer.accumulate_grad_batches > 1, notes=notes)
    finally:
        pl_module.train(training)
        torch.set_rng_state(states[0])
        random.setstate(states[1])


def _first_batch(pl_module: Any, datamodule: Any) -> Any:
    source = datamodule if datamodule is not None else pl_module
    return next(iter(source.train_dataloader()))


def _optimizer(pl_module: Any) -> torch.optim.Optimizer | None:
    made = pl_module.configure_optimizers()
    if isinstance(made, dict):
        made = made["optimizer"]
    while isinstance(made, (list, tuple)):
        if made and isinstance(made[0], (list, tuple)) and not made[0]:
            raise CaptureError("configure_optimizers gives no optimizer; expected one")
        if len(made) > 1 and isinstance(made[1], torch.optim.Optimizer):
            raise CaptureError("configure_optimizers gives several optimizers; expected one")
        made = made[0]
        made = made["optimizer"] if isinstance(made, dict) else made
    optimizer: torch.optim.Optimizer | None = made
    return optimizer


class _StepModule(torch.nn.Module):
    """A module whose output is the loss of training_step. What that logs goes nowhere, as no trainer is attached meanwhile."""

    def __init__(self, pl_module: Any) -> None:
        super().__init__()
        self.module = pl_module

    def forward(self, batch: Any) -> torch.Tensor:
        attached, self.module._trainer = self.module._trainer, None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = self.module.training_step(batch, 0)
        finally:
            self.module._trainer = attached
        loss: torch.Tensor = made["loss"] if isinstance(made, dict) else made
        return loss


def _parsing() -> Any:
    import importlib

    return importlib.import_module(f"{pl.__name__}.utilities.parsing")
