"""ebbtide.lightning.EbbtideCallback: trainer.fit() within a budget."""

from __future__ import annotations

import logging
from typing import Any

import torch

from ..trainers.holding import Holding, shown
from .package import Callback

_log = logging.getLogger("ebbtide")


class EbbtideCallback(Callback):
    """Trainer(..., callbacks=[EbbtideCallback(budget="20GiB")]): forward and backward run within the budget.

    `budget` and `way` as in ebbtide.hf.EbbtideCallback. `module` is the name of the part of the LightningModule that training_step calls, which is
    then compiled ("" for the LightningModule itself, where it calls self(...)); None: its only part that has parameters, else itself. Where
    nothing compiled has run after the first batch, an error says so. Figures are logged as `ebbtide/...`.
    """

    def __init__(self, budget: int | str | None = None, way: str = "compile", *, module: str | None = None, policy: str = "home",
                 link: float | str | None = None, pieces: int = 1) -> None:
        self._holding = Holding(budget, way, policy=policy, link=link, pieces=pieces)
        self._name = module

    def report(self) -> dict[str, float]:
        """Bytes and nanoseconds of the last iteration, or with way="budget" since training began; those of the end when it has ended."""
        return self._holding.figures()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._holding.begin(pl_module if self._holding.way == "budget" else _part(pl_module, self._name))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        figures = self.report()
        if not figures:
            raise ValueError("EbbtideCallback: training_step has called nothing that was compiled; expected module= to name the part of the "
                             "LightningModule that it calls ('' for itself), or way='budget'")
        pl_module.log_dict({f"ebbtide/{name}": float(value) for name, value in figures.items()}, rank_zero_only=True)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._holding.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._holding.end()

    def _end(self) -> None:
        figures = self.report()
        self._holding.end()
        (_log.info if figures else _log.warning)("EbbtideCallback: %s", shown(figures))


def _part(pl_module: torch.nn.Module, name: str | None) -> torch.nn.Module:
    if name is None:
        parts = [part for part in pl_module.children() if next(part.parameters(), None) is not None]
        return parts[0] if len(parts) == 1 and not list(pl_module.parameters(recurse=False)) else pl_module
    try:
        return pl_module.get_submodule(name)
    except AttributeError:
        raise ValueError(f"module {name!r}: the {type(pl_module).__name__} has no such part; it has "
                         f"{', '.join(part for part, _ in pl_module.named_children())}") from None
