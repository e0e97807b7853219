"""Which trial goes to which GPU: by what the arranger of `ebbtide share` predicts for those that are there with the new one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import ray
import torch

from .. import native
from ..arguments import bytes_of
from ..capture.step import CaptureOptions, capture_step
from .step_function import StepFunction, training_of

_MOST_TOGETHER = 5  # as many as the arranger tries all ways for


class Predictions:
    """Of trials together on a GPU, kept by their graphs."""

    def __init__(self, step_fn: StepFunction, capacity: int | str, by: tuple[str, ...] | None, seed: int) -> None:
        self._step_fn, self._capacity, self._by, self._seed = step_fn, bytes_of(capacity, "capacity"), by, seed
        self._graphs: dict[str, native.Graph] = {}
        self._rounds: dict[tuple[str, ...], int | None] = {}

    def graph_of(self, config: Mapping[str, Any]) -> native.Graph:
        counts = dict(config) if self._by is None else {name: config[name] for name in self._by}
        key = json.dumps(counts, sort_keys=True, default=repr)
        if key not in self._graphs:
            training = training_of(self._step_fn, config, self._seed)
            captured = capture_step(training.model, training.loss_fn, training.optimizer, training.batch, CaptureOptions(device="cpu"))
            self._graphs[key] = native.Graph(json.dumps(captured.graph), captured.graph["name"])
        return self._graphs[key]

    def round_ns(self, graphs: list[native.Graph]) -> int | None:
        """The time in which each takes one step; None: they do not fit together."""
        key = tuple(sorted(graph.hash for graph in graphs))
        if key not in self._rounds:
            ordered: list[native.Graph] = sorted(graphs, key=lambda graph: graph.hash)
            said = native.share(ordered, capacity=self._capacity, may_plan=len(graphs) == 1).to_dict()
            self._rounds[key] = said["time_ns"] if said["fits"] else None
        return self._rounds[key]


class Placement:
    """An actor. GPUs are actors of their own, which it starts, and again where they are lost."""

    def __init__(self, step_fn: StepFunction, gpus: int, capacity: int | str, device: str, options: dict[str, Any], by: tuple[str, ...] | None,
                 seed: int, threads: int, measure: bool) -> None:
        torch.set_num_threads(1)
        self._predictions = Predictions(step_fn, capacity, by, seed)
        self._make = lambda: ray.remote(GpuActor).options(**options).remote(step_fn, capacity, device, seed, threads, measure)
        self._gpus: dict[int, Any] = {}
        self._ready: dict[int, Any] = {}  # by number, what tells that it runs
        self._trials: dict[int, dict[str, native.Graph]] = {}
        self._full: set[int] = set()  # has refused a trial since one left last
        self._closing: list[Any] = []
        self._started = 0
        for _ in range(gpus):
            self._start()

    def _start(self) -> None:
        number, self._started = self._started, self._started + 1
        self._gpus[number] = self._make()
        self._ready[number] = self._gpus[number].ready.remote()
        self._trials[number] = {}

    def place(self, trial: str, config: dict[str, Any]) -> tuple[int, Any] | None:
        """A GPU for the trial; None: none has room now. Raises ebbtide.BudgetError where none ever will."""
        graph = self._predictions.graph_of(config)
        best: tuple[int, int, int] | None = None
        for number in self._running():
            there = [other for name, other in self._trials[number].items() if name != trial]
            if number in self._full and there or len(there) >= _MOST_TOGETHER:
                continue
            # What does not fit by the prediction is still tried alone: a plan of its own, by measured sizes, has the last word.
            taken = self._predictions.round_ns([*there, graph]) if there else 0
            if taken is not None and (best is None or (taken, len(there), number) < best):
                best = taken, len(there), number
        if best is None:
            return None
        number = best[2]
        self._trials[number][trial] = graph
        return number, self._gpus[number]

    def left(self, trial: str, number: int) -> None:
        self._trials.get(number, {}).pop(trial, None)
        self._full.discard(number)

    def ended(self, trial: str) -> None:
        """Tune has done with it; what its process would give back when it is used for another trial is given back now."""
        for number, trials in self._trials.items():
            if trials.pop(trial, None) is not None:
                self._full.discard(number)
                self._closing.append(self._gpus[number].close.remote(trial))

    def no_room(self, trial: str, number: int) -> bool:
        """The GPU has refused it. Whether it may find room later: where it was alone, it never will."""
        self._trials.get(number, {}).pop(trial, None)
        if not self._trials.get(number):
            return False
        self._full.add(number)
        return True

    def lost(self, trial: str, number: int) -> None:
        """The GPU's process or node is gone. Another takes its place when there is a node for it."""
        gone = self._gpus.pop(number, None)
        if gone is not None:
            ray.kill(gone)  # it may only have been out of reach
            self._ready.pop(number, None)
            self._trials.pop(number)
            self._full.discard(number)
            self._start()

    def report(self) -> list[dict[str, Any]]:
        """Of each GPU that runs."""
        if self._closing:
            ray.wait(self._closing, num_returns=len(self._closing))
        found = []
        for asked in [self._gpus[number].report.remote() for number in self._running()]:
            with contextlib.suppress(ray.exceptions.RayActorError):  # lost since then, with nothing on it that anybody misses
                found.append(ray.get(asked))
        return found

    def _running(self) -> list[int]:
        waiting = list(self._ready.values())
        done = set(ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]) if waiting else set()
        for number, ready in list(self._ready.items()):
            if ready in done:
                try:
                    ray.get(ready)
                except ray.exceptions.RayActorError:
                    self.lost("", number)
                    continue
                del self._ready[number]
        return [number for number in self._gpus if number not in self._ready]


class GpuActor:
    """The process that has a GPU."""

    def __init__(self, step_fn: StepFunction, capacity: int | str, device: str, seed: int, threads: int, measure: bool) -> None:
        from .trials import Trials

        self._trials = Trials(step_fn, capacity, device, seed=seed, threads=threads, measure=measure)

    def ready(self) -> bool:
        return True

    def open(self, trial: str, config: dict[str, Any], state: bytes | None) -> None:
        self._trials.open(trial, config, state)

    def advance(self, trial: str, iterations: int) -> list[float]:
        return self._trials.advance(trial, iterations)

    def save(self, trial: str) -> bytes:
        return self._trials.save(trial)

    def close(self, trial: str) -> None:
        self._trials.close(trial)

    def report(self) -> dict[str, Any]:
        return self._trials.report()
