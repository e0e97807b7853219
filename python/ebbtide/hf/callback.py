"""ebbtide.hf.EbbtideCallback: a Trainer's training within a budget."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from ..trainers.holding import Holding, shown

_log = logging.getLogger("ebbtide")


class EbbtideCallback(TrainerCallback):
    """Trainer(..., callbacks=[EbbtideCallback(budget="20GiB")]): forward and backward run within the budget.

    `budget` is a number of bytes, a text as "20GiB", or with way="compile" a share of what each graph takes without a plan, as "50%". `way`
    "compile": the model is compiled in place by the backend 'ebbtide' when training begins, with `policy`, `link` and `pieces` as its options,
    and is as before when it ends. "budget": ebbtide.budget is in force from the beginning of training to its end. What each covers, and whose
    bits each has: docs/trainers.md. Peak, copies and times, with what was predicted for them, are in the Trainer's log as `ebbtide_...`.
    """

    def __init__(self, budget: int | str | None = None, way: str = "compile", *, policy: str = "home", link: float | str | None = None,
                 pieces: int = 1) -> None:
        self._holding = Holding(budget, way, policy=policy, link=link, pieces=pieces)

    def report(self) -> dict[str, float]:
        """Bytes and nanoseconds of the last iteration, or with way="budget" since training began; those of the end when it has ended."""
        return self._holding.figures()

    def close(self) -> None:
        """Ends what a training that failed has left in force: a Trainer does not tell its callbacks of errors. The next training with this
        callback does so too, and so does train() of a trainer that it was attached to."""
        self._holding.end()

    def on_train_begin(self, args: Any, state: Any, control: Any, model: torch.nn.Module | None = None, **kwargs: Any) -> None:
        if args.torch_compile and self._holding.way == "compile":
            raise ValueError(f"torch_compile=True (backend {args.torch_compile_backend!r}) and EbbtideCallback would both compile the model; "
                             "expected one of them")
        assert model is not None  # the Trainer's
        self._holding.begin(model)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not self._holding.begun:
            return
        figures = {f"ebbtide_{name}": value for name, value in self.report().items()}
        for place in (logs, state.log_history[-1] if state.log_history else None):
            if place is not None:
                place.update(figures)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        figures = self.report()
        self._holding.end()
        (_log.info if figures else _log.warning)("EbbtideCallback: %s", shown(figures))


def attach(trainer: Trainer, budget: int | str | None = None, way: str = "compile", **options: Any) -> EbbtideCallback:
    """An EbbtideCallback before all other callbacks of the trainer: those that report to TensorBoard and its like, which otherwise come
    before it, then see its figures too. Whatever train() raises, nothing is left in force behind it."""
    callback = EbbtideCallback(budget, way, **options)
    trainer.callback_handler.callbacks.insert(0, callback)
    train = trainer.train

    @functools.wraps(train)
    def train_and_close(*args: Any, **kwargs: Any) -> Any:
        try:
            return train(*args, **kwargs)
        finally:
            callback.close()

    trainer.train = train_and_close
    return callback
