"""A trial as Tune sees it: a light process beside the driver, which has the trial trained on one of the GPUs and takes it elsewhere when that one is lost.
Imports no torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import ray
from ray import tune
from ray.exceptions import ObjectLostError, RayActorError, RayTaskError

_LOST = RayActorError, ObjectLostError  # the GPU's process or node is gone, or what it has answered went with it
_FILE = "trial.pt"
_POLL = 0.05  # seconds between two questions whether there is room
_Answer = TypeVar("_Answer")


class TrialProxy(tune.Trainable):  # type: ignore[misc, unused-ignore]
    """`placement`, `iterations`, `report_every` and `save_every` are those of a SharedTuner, set on a class derived from this one."""

    placement: Any
    iterations: int
    report_every: int
    save_every: int

    def setup(self, config: dict[str, Any]) -> None:
        self._config = dict(config)
        self._gpu: tuple[int, Any] | None = None  # its number and its actor
        self._saved: bytes | None = None
        self._saved_at = self._done = 0
        self._times_lost = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        target = min(self._done + self.report_every, self.iterations)
        losses = self._on_gpu(lambda gpu: ray.get(gpu.advance.remote(self.trial_id, target - self._done)), at=self._done)
        self._done = target
        if (self._done - self._saved_at) >= self.save_every * self.report_every and self._done < self.iterations:
            self._saved = self._on_gpu(lambda gpu: ray.get(gpu.save.remote(self.trial_id)), at=self._done)
            self._saved_at = self._done
        return {"loss": losses[-1], "mean_loss": sum(losses) / len(losses), "iterations": self._done, "gpu": self._gpu[0] if self._gpu else None,
                "times_lost": self._times_lost, tune.result.DONE: self._done >= self.iterations}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self._saved, self._saved_at = self._on_gpu(lambda gpu: ray.get(gpu.save.remote(self.trial_id)), at=self._done), self._done
        with open(os.path.join(checkpoint_dir, _FILE), "wb") as file:
            file.write(self._done.to_bytes(8, "little"))
            file.write(self._saved)

    def load_checkpoint(self, checkpoint: Any) -> None:
        with open(os.path.join(checkpoint, _FILE), "rb") as file:
            done = int.from_bytes(file.read(8), "little")
            state = file.read()
        self.cleanup()
        self._saved, self._saved_at, self._done = state, done, done

    def cleanup(self) -> None:
        if self._gpu is not None:
            number, gpu = self._gpu
            self._gpu = None
            try:
                ray.get(gpu.close.remote(self.trial_id))
            except _LOST:
                pass  # it is gone with all it had
            ray.get(self.placement.left.remote(self.trial_id, number))

    def _on_gpu(self, ask: Callable[[Any], _Answer], at: int) -> _Answer:
        """What a GPU answers that has the trial with so many steps taken; another one, where it is lost meanwhile."""
        while True:
            try:
                if self._gpu is None:
                    self._come(at)
                assert self._gpu is not None
                return ask(self._gpu[1])
            except _LOST:
                lost, self._gpu = self._gpu, None
                self._times_lost += 1
                if lost is not None:
                    ray.get(self.placement.lost.remote(self.trial_id, lost[0]))

    def _come(self, at: int) -> None:
        """To a GPU with room for it, from where it was saved last; steps taken since then are taken again, with the same numbers."""
        while True:
            answer = ray.get(self.placement.place.remote(self.trial_id, self._config))
            if answer is not None:
                self._gpu = answer
                number, gpu = answer
                try:
                    ray.get(gpu.open.remote(self.trial_id, self._config, self._saved))
                except RayTaskError as error:
                    if type(error.cause).__name__ != "BudgetError":
                        raise
                    self._gpu = None
                    if not ray.get(self.placement.no_room.remote(self.trial_id, number)):
                        raise
                else:
                    if at > self._saved_at:
                        ray.get(gpu.advance.remote(self.trial_id, at - self._saved_at))
                    return
            time.sleep(_POLL)
