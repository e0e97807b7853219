"""The trials of one GPU: an ebbtide.Shared in the process that has the GPU. Knows nothing of Ray."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from ..shared.job import Job
from ..shared.service import Service
from ..step.step import Step, StepOptions
from .step_function import StepFunction, Training, training_of


class Batches:
    """Batches without end, of which it is known how to get to the next one again: by the random state with which an epoch began, and the place in it."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self._iterator: Iterator[Any] | None = None
        self.began: torch.Tensor | None = None
        self.place = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._iterator is None:
            self._begin()
        assert self._iterator is not None
        batch = next(self._iterator, _END)
        if batch is _END:
            self._begin()
            batch = next(self._iterator)
        self.place += 1
        return batch

    def _begin(self) -> None:
        self.began, self.place = torch.get_rng_state(), 0
        self._iterator = iter(self._batches)

    def go_to(self, began: torch.Tensor | None, place: int) -> None:
        """To where another was."""
        if began is None:
            return
        torch.set_rng_state(began)
        self._begin()
        for _ in range(place):
            next(self)


_END = object()


class Trials:
    """Trials by name. Methods may be called from several threads, of one trial from one at a time."""

    def __init__(self, step_fn: StepFunction, capacity: int | str, device: str = "cpu", *, seed: int = 0, threads: int = 1, measure: bool = True) -> None:
        torch.set_num_threads(threads)
        self._threads = threads
        self._step_fn, self._device, self._seed, self._measure = step_fn, device, seed, measure
        self._service = Service(capacity)
        self._jobs: dict[str, tuple[Job, Batches | None, dict[str, Any]]] = {}

    def open(self, name: str, config: Mapping[str, Any], state: bytes | None = None) -> None:
        """A trial from its beginning, or from where `state` was saved, maybe by another with another config. Raises ebbtide.BudgetError where there is no
        room beside the others."""
        torch.set_num_threads(self._threads)
        self.close(name)
        saved = None if state is None else torch.load(io.BytesIO(state), weights_only=False, map_location="cpu")
        made: list[Batches | None] = []

        def make() -> tuple[Step, Iterable[Any] | None]:
            training = training_of(self._step_fn, config, self._seed)
            if self._device != "cpu":
                training.model.to(self._device)
            if saved is not None:
                _load(training, saved, same=saved["config"] == dict(config))
            step = Step(training.model, training.loss_fn, training.optimizer, training.batch, StepOptions(device=self._device, measure=self._measure))
            batches = None if training.batches is None else Batches(training.batches)
            made.append(batches)
            return step, batches

        def ready(job: Job) -> None:
            if saved is not None:
                if made[0] is not None:
                    made[0].go_to(*saved["batches"])
                job.losses.extend(saved["losses"])
                job.random_state = saved["random"]

        job = self._service.open(make, name, ready)
        self._jobs[name] = job, made[0], dict(config)

    def advance(self, name: str, iterations: int) -> list[float]:
        """The losses of so many steps."""
        torch.set_num_threads(self._threads)
        return self._service.advance(self._jobs[name][0], iterations)

    def save(self, name: str) -> bytes:
        """All that the trial is, between two steps."""
        job, batches, config = self._jobs[name]
        step, out = job.step, io.BytesIO()
        torch.save({"model": step._model.state_dict(), "optimizer": step._optimizer.state_dict(), "random": job.random_state, "losses": list(job.losses),
                    "batches": None if batches is None else (batches.began, batches.place), "config": config}, out)
        return out.getvalue()

    def close(self, name: str) -> None:
        """The trial's memory is given back. One that is not there is no error."""
        found = self._jobs.pop(name, None)
        if found is not None:
            self._service.close(found[0])

    def report(self) -> dict[str, Any]:
        """Of the GPU: `capacity_bytes`, `peak_bytes`, and the names of its trials."""
        shared = self._service.shared
        return {"capacity_bytes": shared.capacity, "peak_bytes": shared._pool.held_peak if shared._pool else 0, "trials": list(self._jobs)}


def _load(training: Training, saved: dict[str, Any], same: bool) -> None:
    training.model.load_state_dict(saved["model"])
    optimizer = saved["optimizer"]
    if not same:  # what the other config says of learning rates and the like holds
        optimizer = {"state": optimizer["state"], "param_groups": training.optimizer.state_dict()["param_groups"]}
    training.optimizer.load_state_dict(optimizer)
