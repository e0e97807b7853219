"""ebbtide.Shared: several trainings in one pool of device memory, none of them out of memory, each with the numbers that it has alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from .. import interrupts, native, progress
from ..arguments import bytes_of, shown_bytes
from ..errors import BudgetError, SharedError
from ..step.prepared import make_pool
from ..step.step import Step
from .job import BatchLeaves, Job
from .plans import Arranger
from .report import SharedReport

_ALIGNMENT = 512


class Shared(native.Scope):
    """A context. `add` steps, then `run` them; see docs/share.md."""

    def __init__(self, capacity: int | str, groups: int = 16) -> None:
        super().__init__()
        if isinstance(capacity, bool) or not isinstance(capacity, (int, str)) or str(capacity).strip().endswith("%"):
            raise ValueError(f"capacity {capacity!r}: expected bytes or a text as '10GiB'")
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise ValueError(f"groups {groups!r}: expected a number from 1 on")
        self.capacity, self.groups = bytes_of(capacity, "capacity") // _ALIGNMENT * _ALIGNMENT, groups
        self.jobs: list[Job] = []
        self._arriving: list[Job] = []  # came while others run
        self._arranger: Arranger | None = None
        self._pool: native.SharedPool | None = None
        self._device: str | None = None
        self._running = False
        self._seconds = 0.0

    def _open(self) -> None:
        """A context is entered: nothing is to be done."""

    def _shut(self, *error: Any) -> None:
        self.close()

    @interrupts.deferring
    def add(self, step: Step, batches: Iterable[Any] | None = None, *, name: str | None = None, weight: int = 1,
            priority: int = 0, after: Callable[[Job, torch.Tensor], object] | None = None) -> Job:
        """A job: `step` is an ebbtide.step; until the Shared is closed it runs here alone, and not by calls of its own.

        `batches` is what it trains on, as the example was: an iterable, gone through again when it ends, or an iterator, which ends the
        job. None: the example, again and again. `after(job, loss)` is called after each step, in the job's thread. Random numbers
        are drawn as by a job that begins alone with torch's random state of now. Returns the Job. While `run` runs it may be
        called in `after`: the job joins the others, if there is room for it beside them, and takes as many steps as they do.
        """
        if not isinstance(step, Step):
            raise TypeError(f"expected what ebbtide.step returns, found {type(step).__name__}")
        if step._lent_to is not None:
            raise ValueError("the step is in an ebbtide.Shared already")
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 1000:
            raise ValueError(f"weight {weight!r}: expected a number from 1 to 1000")
        if self._device not in (None, step._device):
            raise ValueError(f"the step is on {step._device}, the others are on {self._device}")
        for other in self.jobs:
            _check_apart(name or self._name_of(step), step, other)
        step._lend(self)
        try:
            job = Job(self, step, batches, name or self._name_of(step), weight, priority, after)
        except BaseException:
            step._lend(None)
            raise
        self._device = step._device
        self.jobs.append(job)
        if self._running:
            self._arriving.append(job)
        return job

    @interrupts.deferring
    def run(self, iterations: int | None = None) -> list[Job]:
        """Each job takes so many steps, or with None those of its batches, all at once. Returns the jobs; raises SharedError at the end
        where some have failed, BudgetError at once where they do not fit. Ctrl-C undoes the steps that are under way; a run after it goes
        on with their batches."""
        if not self.jobs:
            raise ValueError("the Shared has no jobs; expected at least one `add` before `run`")
        if iterations is None:
            endless = [job.name for job in self.jobs if job.endless]
            if endless:
                raise ValueError(f"{endless[0]}: has no batches of its own; expected a number of iterations")
        elif isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
            raise ValueError(f"iterations {iterations!r}: expected a number from 0 on")
        if self._running:
            raise RuntimeError("run is running")
        for place, job in enumerate(self.jobs):
            for other in self.jobs[:place]:
                _check_apart(job.name, job.step, other)
        self._running = True
        self._arriving.clear()
        try:
            self._join()
            return self._run(iterations)
        finally:
            self._running = False
            for job in [job for job in self.jobs if job.error is not None]:
                self._drop(job)

    @interrupts.deferring
    def remove(self, job: Job) -> None:
        """Its step is the user's again."""
        if self._running:
            raise RuntimeError("jobs are removed before run, or after it; while it runs, they are stopped")
        self._drop(job)

    @interrupts.deferring
    def close(self) -> None:
        """Moves everything out of the pool, and gives it back. Not while `run` runs, as in `after`."""
        if self._running:
            raise RuntimeError("close is called while run runs; expected after it, or stop() of the jobs and close then")
        for job in list(self.jobs):
            self._drop(job)
        self._pool = None

    def report(self) -> SharedReport:
        """What the jobs have done, and the memory they took together."""
        return SharedReport(self.capacity, self._pool, self.jobs, self._seconds)

    @property
    def held_bytes(self) -> int:
        """Of the pool, now, as it counts itself."""
        return self._pool.held if self._pool else 0

    def pool(self) -> native.SharedPool:
        """The memory that all jobs share, which is made if need be."""
        if self._pool is None:
            assert self._device is not None  # there are jobs
            limits = [job.step._pinned_limit for job in self.jobs]
            pinned_limit = -1 if min(limits) < 0 else sum(limits)
            self._pool = native.SharedPool(make_pool(self.capacity, self._device, pinned_limit=pinned_limit))
        return self._pool

    def _arranger_of_jobs(self) -> Arranger:
        """Who decides lanes, plans and turns, for the device of the first job."""
        if self._arranger is None:
            self._arranger = Arranger(self.capacity, self.groups, self.jobs[0].step)
        return self._arranger

    def _name_of(self, step: Step) -> str:
        name, names = type(step._model).__name__, {job.name for job in self.jobs}
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name} {number}", number + 1
        return unique

    def _join(self) -> None:
        """Every job gets memory for its state; or none does."""
        if all(job.joined for job in self.jobs):
            return
        prepared = {job: job.prepare(_leaves(job.step, job.step._example)) for job in self.jobs}
        arranged, order, start_at_ebb = self._arranger_of_jobs().arrange(prepared)
        for job in self.jobs:
            if job.joined and not job.runs(prepared[job], arranged[job]):  # there is less room than there was
                job.leave()
        for job in self.jobs:
            job.settle(prepared[job], arranged[job])
        self.pool().set_start_at_ebb(start_at_ebb)
        try:
            for job in order:
                if not job.joined:
                    job.join()
        except ValueError:  # where lanes lie depends on all: all find their places anew
            for job in self.jobs:
                job.leave()
            for job in order:
                job.join()

    def _admit(self, job: Job) -> bool:
        """While others run, where they are. Whether there is room; if not, the job has an error."""
        prepared = job.prepare(_leaves(job.step, job.step._example))
        job.error = BudgetError(f"{job.name}: there is no room for it in {shown_bytes(self.capacity)}; the others go on", None)
        for arranged in self._arranger_of_jobs().beside(job, prepared, [how for other in self.jobs if other.joined and (how := other.arranged) is not None]):
            job.settle(prepared, arranged)
            try:
                job.join()
            except ValueError as error:
                job.error = BudgetError(f"{error}; the others go on", None)
            else:
                job.error = None
                break
        if job.error is not None:
            return False
        if self._device != "cpu":
            torch.cuda.synchronize(self._device)
        job.go_on()
        return True

    def _run(self, iterations: int | None) -> list[Job]:
        if self._device != "cpu":
            torch.cuda.synchronize(self._device)  # batches and state may have been made on other streams
        for job in self.jobs:
            job.go_on()
        threads = [_thread_of(job, iterations) for job in self.jobs]
        started, done = time.perf_counter(), False
        try:
            for thread in threads:
                thread.start()
            while self._arriving or any(thread.is_alive() for thread in threads):
                while self._arriving:
                    job = self._arriving.pop(0)
                    if self._admit(job):
                        threads.append(_thread_of(job, iterations))
                        threads[-1].start()
                for thread in threads:
                    thread.join(0.1)
                interrupts.check()
                progress.report("   ".join(job.progress() for job in self.jobs))
            done = True
        finally:
            while not done:  # Ctrl-C, and maybe again
                with contextlib.suppress(KeyboardInterrupt):
                    for job in self.jobs:
                        job.stop()
                    for job in self.jobs:
                        job.await_end()
                    done = True
            self._seconds += time.perf_counter() - started
            progress.report("")
        failed = [job for job in self.jobs if job.error is not None]
        if failed:
            raise SharedError(failed) from failed[0].error
        return list(self.jobs)

    def _drop(self, job: Job) -> None:
        if job in self.jobs:
            self.jobs.remove(job)
            job.leave()
            job.step._lend(None)


def _thread_of(job: Job, iterations: int | None) -> threading.Thread:
    return threading.Thread(target=job.work, args=(iterations, torch.get_num_threads()), name=f"ebbtide {job.name}", daemon=True)


def _check_apart(name: str, step: Step, other: Job) -> None:
    """Jobs run at once: what two of them had in common, both would change and move."""
    common = _memory_of(step).keys() & (theirs := _memory_of(other.step)).keys()
    if common:
        raise ValueError(f"{name}: has {theirs[min(common)]} in common with {other.name}; expected jobs whose parameters, buffers and optimizer state "
                         "are their own")


def _memory_of(step: Step) -> dict[int, str]:
    """By storage, the name of what lies in it."""
    tensors = [*step._model.named_parameters(), *step._model.named_buffers()]
    for state in step._optimizer.state.values():
        tensors += [(f"optimizer state {key}", value) for key, value in state.items() if isinstance(value, torch.Tensor) and value.dim()]
    return {tensor.untyped_storage()._cdata: name for name, tensor in reversed(tensors) if tensor.numel()}


def _leaves(step: Step, batch: Any) -> BatchLeaves:
    batch = step._batch_of((batch,), {})
    return batch, *tree_flatten_with_path(batch)
