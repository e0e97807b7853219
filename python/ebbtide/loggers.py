"""Reports in the tools that trainings are watched with: one small callback for TensorBoard, one for Weights & Biases.

    log = ebbtide.loggers.TensorBoard("runs/first")      # or a SummaryWriter of your own
    loss = step(x, y)
    log(step.report())

A callback takes whatever has numbers to tell: the Report of a step, that of a Shared, an Estimate, a result of
ebbtide.native. Neither package is imported before its callback is made, and neither is needed by anything else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class _HasFields(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


_SKIPPED = ("schema_version", "pid")


def numbers(report: _HasFields, prefix: str = "ebbtide") -> dict[str, float]:
    """The finite numbers of a report by their paths: ebbtide/peak_bytes, ebbtide/predicted/time_ns. Of lists those whose
    entries have names (jobs, GPUs): ebbtide/jobs/resnet18/iterations_per_second."""
    return dict(_walk(prefix, report.to_dict()))


def _walk(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool):
        yield path, float(value)
    elif isinstance(value, (int, float)):
        if math.isfinite(value):
            yield path, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if name not in _SKIPPED:
                yield from _walk(f"{path}/{name}", part)
    elif isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        for name, part in _named(value):
            yield from _walk(f"{path}/{name}", part)


def _named(parts: list[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    taken: dict[str, int] = {}
    for part in parts:
        name = next((str(part[key]) for key in ("name", "model", "gpu", "policy") if part.get(key)), None)
        if name is None:
            return  # a list of places or moments: no series
        taken[name] = taken.get(name, 0) + 1
        yield (name if taken[name] == 1 else f"{name}.{taken[name]}"), part


def _step_of(report: _HasFields, step: int | None) -> int | None:
    return report.to_dict().get("steps") if step is None else step


class TensorBoard:
    """Writes every number of a report as a scalar. `to` is a torch.utils.tensorboard.SummaryWriter, or the folder that one
    is made for. The package tensorboard has to be installed."""

    def __init__(self, to: Any, prefix: str = "ebbtide") -> None:
        self._prefix, self._owns = prefix, isinstance(to, (str, os.PathLike))
        if self._owns:
            from torch.utils.tensorboard import SummaryWriter

            to = SummaryWriter(os.fspath(to))
        self.writer = to

    def __call__(self, report: _HasFields, step: int | None = None) -> None:
        """`step`: where on the axis; None: by the report's own count of steps."""
        for name, value in numbers(report, self._prefix).items():
            self.writer.add_scalar(name, value, _step_of(report, step))
        self.writer.flush()

    def close(self) -> None:
        """Closes a writer that was made here."""
        if self._owns:
            self.writer.close()


class WeightsAndBiases:
    """Logs every number of a report to a run of wandb: `run`, or the one that wandb.init() has begun."""

    def __init__(self, run: Any = None, prefix: str = "ebbtide") -> None:
        if run is None:
            import wandb  # type: ignore[import-not-found, unused-ignore]

            run = wandb.run
            if run is None:
                raise ValueError("no run: expected wandb.init() before, or a run as the argument")
        self.run, self._prefix = run, prefix

    def __call__(self, report: _HasFields, step: int | None = None) -> None:
        """`step`: where on the axis; None: by the report's own count of steps."""
        self.run.log(numbers(report, self._prefix), step=_step_of(report, step))
