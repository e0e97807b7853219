"""A Shared whose jobs come, go and advance one by one, each called from a thread of its own: what ebbtide.ray's trials run in."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

from ..capture.alone import alone
from ..step.step import Step
from .job import Job
from .shared import Shared

_Made = TypeVar("_Made")


class Service:
    """Methods may be called from any thread; of one job, from one at a time.

    A job comes beside the others as they are, where there is room; else all are held between two steps and arranged anew. Either way none of
    them notices: each has the numbers that it has alone.
    """

    def __init__(self, capacity: int | str, groups: int = 16) -> None:
        self.shared = Shared(capacity, groups)
        self._members = threading.Lock()  # who comes or goes, one at a time
        self._state = threading.Condition()  # of the two below
        self._busy: set[Job] = set()  # within advance()
        self._arranging = False

    def build(self, make: Callable[[], _Made]) -> _Made:
        """What `make()` gives, while no other code of jobs draws random numbers or runs. Their steps go on."""
        with self._members, self._apart():
            return make()

    def open(self, make: Callable[[], tuple[Step, Iterable[Any] | None]], name: str, ready: Callable[[Job], object] | None = None) -> Job:
        """A job of what `make()` gives, with memory for its state. `ready(job)` is called before that. Raises BudgetError where there is no room
        for it beside the others; nothing has changed then."""
        with self._members:
            with self._apart():
                step, batches = make()
                job = self.shared.add(step, batches, name=name)
                if ready is not None:
                    ready(job)
            try:
                if not self._beside(job):
                    self._arrange_all()
            except BaseException:
                self.shared.jobs.remove(job)
                job.step._lend(None)
                raise
            return job

    def advance(self, job: Job, iterations: int) -> list[float]:
        """Takes so many steps and returns their losses. Raises what the step has raised; the job is then gone."""
        begun, target = job.iterations, job.iterations + iterations
        while job.iterations < target:
            with self._state:
                self._state.wait_for(lambda: not self._arranging)
                job.go_on()
                self._busy.add(job)
            try:
                job.work(target - job.iterations, torch.get_num_threads())
            finally:
                with self._state:
                    self._busy.discard(job)
                    self._state.notify_all()
            if job.error is not None:
                error = job.error
                self.close(job)
                raise error
            if job.stopped:
                break
        return job.losses[begun:]

    def close(self, job: Job) -> None:
        """Its state goes back to torch's memory, and the pool's is given back. Not while it advances."""
        with self._members:
            self.shared._drop(job)

    def shut(self) -> None:
        """Closes all jobs, which must not advance any more."""
        with self._members:
            self.shared.close()

    def fits_alone(self, job: Job) -> bool:
        """Whether the job, once it was opened, would fit if there were no others."""
        prepared = job.prepare(job._leaves_of(job.step._example))
        return self.shared._arranger_of_jobs().within(job, prepared, self.shared.capacity, -1) is not None

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """Inside, code of jobs waits, and torch's random state is as it was afterwards."""
        with alone(), torch.random.fork_rng():
            yield

    def _beside(self, job: Job) -> bool:
        others = any(other.joined for other in self.shared.jobs)
        if not others:
            return False
        found = self.shared._admit(job)
        job.error = None
        return found

    def _arrange_all(self) -> None:
        with self._state:
            self._arranging = True
            for job in self._busy:
                job.held = True
            self._state.wait_for(lambda: not self._busy)
        try:
            self.shared._join()
        finally:
            with self._state:
                self._arranging = False
                self._state.notify_all()
