"""ebbtide.hf.estimate and find_batch_size: a Trainer's own step, predicted before train()."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import Trainer

from ..capture.errors import one_line
from ..errors import CaptureError
from ..estimate.estimate import Estimate
from ..trainers.prediction import BatchPrediction, Gpu, TrainingStep, estimate_step, gpu_of, largest_batch


def estimate(trainer: Trainer, gpu: Gpu | None = None) -> Estimate:
    """How much memory trainer.train() will take on `gpu` (a name that `ebbtide gpus` lists, or a profile; None: the one that PyTorch sees), on a
    machine without one.

    The step is the trainer's: its model, the first batch that its sampler and collator make, its optimizer, and of its arguments
    gradient_checkpointing, gradient_accumulation_steps, bf16 and fp16. Nothing of the trainer changes. Returns an ebbtide.Estimate; its notes say
    what is not as the trainer does it. The first batch stands for all: where lengths vary, others may take more.
    """
    with _own_step(trainer) as steps:
        return _first_that_works(steps, lambda step: estimate_step(step, gpu_of(gpu)))


def find_batch_size(trainer: Trainer, gpu: Gpu | None = None, *, apply: bool = True, keep_total: bool = False) -> BatchPrediction:
    """The largest batch for each device, predicted by captures of three batches: nothing is run, and nothing runs out of memory.

    With `apply` the trainer takes it: args.per_device_train_batch_size is set to the safe one. With `keep_total` gradient_accumulation_steps
    becomes what makes of it at least as many samples to an update as there were. Raises ebbtide.BudgetError where not one sample fits.
    """
    with _own_step(trainer) as steps:
        found = _first_that_works(steps, lambda step: largest_batch(step, gpu_of(gpu)))
    if apply:
        args = trainer.args
        size = max(found.batch_size, 1)
        if keep_total:
            total = args.per_device_train_batch_size * args.gradient_accumulation_steps
            size = min(size, total)
            args.gradient_accumulation_steps = -(-total // size)
            trainer.accelerator.gradient_accumulation_steps = args.gradient_accumulation_steps
        args.per_device_train_batch_size = size
        trainer._train_batch_size = args.train_batch_size
    return found


def _first_that_works(steps: list[TrainingStep], ask: Any) -> Any:
    """By the trainer's own loss where it can be captured, else by the model's, which the notes then say."""
    for step in steps[:-1]:
        try:
            return ask(step)
        except CaptureError as error:
            steps[-1].notes.append(f"the model's own loss is counted, not what the trainer's compute_loss does beside it: {one_line(error)}")
    return ask(steps[-1])


@contextlib.contextmanager
def _own_step(trainer: Trainer) -> Iterator[list[TrainingStep]]:
    """The trainer's step in the ways to capture it, the truest first. Inside, the model checkpoints as it will in training."""
    args, model = trainer.args, trainer.model
    notes = []
    if args.fp16:
        notes.append("fp16: the gradient scaler's check of gradients is not counted")
    if trainer.args.world_size > 1 or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        notes.append("one device with all of the model: what several ranks split, and the buffers of their collectives, are not counted (docs/ranks.md)")
    batch = first_batch(trainer)
    had_optimizer, training = trainer.optimizer, model.training
    with _checkpointing(model, args):
        optimizer = trainer.create_optimizer() if had_optimizer is None else had_optimizer
        try:
            model.train()
            common: dict[str, Any] = {
                "optimizer": getattr(optimizer, "optimizer", optimizer),
                "autocast": torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None,
                "accumulates": args.gradient_accumulation_steps > 1}
            steps = [TrainingStep(model, None, batch=dict(batch), notes=notes, **common)]
            if _has_own_loss(trainer):
                steps.insert(0, TrainingStep(_WithLoss(model, trainer), None, batch=dict(batch), notes=list(notes), **common))
            yield steps
        finally:
            trainer.optimizer = had_optimizer
            model.train(training)


def first_batch(trainer: Trainer) -> Mapping[str, Any]:
    """As the first step will get it, but for which samples it has: the random state is as before."""
    states = torch.get_rng_state(), random.getstate(), _numpy_state()
    prepared = len(trainer.accelerator._dataloaders)
    try:
        loader = trainer.get_train_dataloader()
        batch = next(iter(loader))
    finally:
        del trainer.accelerator._dataloaders[prepared:]
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        _set_numpy_state(states[2])
    if not isinstance(batch, Mapping):
        raise CaptureError(f"the collator makes a {type(batch).__name__}; expected a dict of the model's arguments")
    return batch


def _numpy_state() -> Any:
    import numpy

    return numpy.random.get_state()


def _set_numpy_state(state: Any) -> None:
    import numpy

    numpy.random.set_state(state)


@contextlib.contextmanager
def _checkpointing(model: Any, args: Any) -> Iterator[None]:
    """As Trainer.train() sets it up."""
    if not args.gradient_checkpointing or getattr(model, "is_gradient_checkpointing", False):
        yield
        return
    options = dict(args.gradient_checkpointing_kwargs or {})
    more = {name: options.pop(name) for name in ("every_n_layers", "offload") if name in options}
    cache = getattr(model.config, "use_cache", None)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options or None, **more)
    try:
        yield
    finally:
        model.gradient_checkpointing_disable()
        if cache is not None:
            model.config.use_cache = cache


def _has_own_loss(trainer: Trainer) -> bool:
    return (type(trainer).compute_loss is not Trainer.compute_loss or trainer.compute_loss_func is not None or trainer.label_smoother is not None)


class _WithLoss(torch.nn.Module):
    """A model whose outputs are the trainer's loss."""

    def __init__(self, model: torch.nn.Module, trainer: Trainer) -> None:
        super().__init__()
        self.model = model
        self._trainer = trainer

    def forward(self, **inputs: Any) -> torch.Tensor:
        loss: torch.Tensor = self._trainer.compute_loss(self.model, inputs)
        return loss
