"""ebbtide.Shared: several trainings in one pool of device memory, none of them out of memory, each with the numbers that it has alone."""

import contextlib
import threading
import time

import torch
from torch.utils._pytree import tree_flatten_with_path

from . import _core
from .sharing_job import Job
from .sharing_plans import needs_of, plan_within, plans_together
from .sharing_report import SharedReport
from .step_arguments import bytes_of, shown_bytes
from .step_plan import BudgetError
from .stepping import Step, make_pool, tell

_ALIGNMENT = 512
_OWN_LANE, _ONE_LANE = -1, 0


class SharedError(RuntimeError):
    """Some jobs have failed; the others have run to their end. `jobs`: those that failed, each with its `error`."""

    def __init__(self, jobs):
        super().__init__("; ".join(f"{job.name}: {type(job.error).__name__}: {_first_line(job.error)}" for job in jobs))
        self.jobs = jobs


class Shared:
    """A context. `add` steps, then `run` them; see docs/share.md."""

    def __init__(self, capacity, groups=16):
        if isinstance(capacity, bool) or not isinstance(capacity, (int, str)) or str(capacity).strip().endswith("%"):
            raise ValueError(f"capacity {capacity!r}: expected bytes or a text as '10GiB'")
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise ValueError(f"groups {groups!r}: expected a number from 1 on")
        self.capacity, self.groups = bytes_of(capacity, "capacity") // _ALIGNMENT * _ALIGNMENT, groups
        self.jobs, self._arriving = [], []  # the latter came while others run
        self.enough = 0  # bytes of the pool beside the state of all jobs
        self._pool = self._device = None
        self._running = False
        self._seconds = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def add(self, step, batches=None, *, name=None, weight=1, priority=0, after=None):
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
        self._device = step._device
        step._lend(self)
        job = Job(self, step, batches, name or self._name_of(step), weight, priority, after)
        self.jobs.append(job)
        if self._running:
            self._arriving.append(job)
        return job

    def run(self, iterations=None):
        """Each job takes so many steps, or with None those of its batches, all at once. Returns the jobs; raises SharedError at the end
        where some have failed, BudgetError at once where they do not fit."""
        if iterations is None:
            endless = [job.name for job in self.jobs if job.endless]
            if endless:
                raise ValueError(f"{endless[0]}: has no batches of its own; expected a number of iterations")
        elif isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
            raise ValueError(f"iterations {iterations!r}: expected a number from 0 on")
        if self._running:
            raise RuntimeError("run is running")
        self._running = True
        self._arriving.clear()
        try:
            self._join()
            return self._run(iterations)
        finally:
            self._running = False
            for job in [job for job in self.jobs if job.error is not None]:
                self._drop(job)

    def remove(self, job):
        """Its step is the user's again."""
        if self._running:
            raise RuntimeError("jobs are removed before run, or after it; while it runs, they are stopped")
        self._drop(job)

    def close(self):
        """Moves everything out of the pool, and gives it back."""
        for job in list(self.jobs):
            self._drop(job)
        self._pool = None

    def report(self):
        """What the jobs have done, and the memory they took together."""
        return SharedReport(self.capacity, self._pool, self.jobs, self._seconds)

    @property
    def held_bytes(self):
        """Of the pool, now, as it counts itself."""
        return self._pool.held if self._pool else 0

    def pool(self):
        if self._pool is None:
            limits = [job.step._pinned_limit for job in self.jobs]
            pinned_limit = -1 if min(limits) < 0 else sum(limits)
            self._pool = _core.SharedPool(make_pool(self.capacity, self._device, pinned_limit=pinned_limit))
        return self._pool

    def _name_of(self, step):
        name, names = type(step._model).__name__, {job.name for job in self.jobs}
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name} {number}", number + 1
        return unique

    def _join(self):
        """Every job gets memory for its state; or none does."""
        new = [job for job in self.jobs if not job.joined]
        if not new:
            return
        prepared = {job: job.prepare(_leaves(job.step, job.step._example)) for job in self.jobs}
        states = sum(_up(needs_of(p.planned)[0]) for p in prepared.values())
        self.enough = enough = max(self.capacity - states, 0)
        plans = plans_together(self, prepared, enough)
        heights = [_up(needs_of(planned, enough)[1]) for planned in plans.values()]
        if states + max(heights) > self.capacity:
            raise BudgetError(
                f"capacity {shown_bytes(self.capacity)}: the state of {len(self.jobs)} jobs takes {shown_bytes(states)}, an iteration of "
                f"{self.jobs[heights.index(max(heights))].name} {shown_bytes(max(heights))} beside it; without further plans the smallest "
                f"capacity that works is {shown_bytes(states + max(heights))}", states + max(heights))
        lane = _OWN_LANE if sum(heights) <= enough else _ONE_LANE
        for job in self.jobs:
            if job.joined and not job.runs(prepared[job], plans[job]):  # there is less room than there was
                job.leave()
                new.append(job)
        for job in new:
            job.make(prepared[job], plans[job], enough)
        try:
            if any(job.lane != lane for job in self.jobs if job.joined):
                raise ValueError("those that are there are elsewhere")
            for job in new:
                job.join(lane)
        except ValueError:  # where lanes lie depends on all: all find their places anew
            for job in self.jobs:
                job.leave()
            for job in self.jobs:
                job.join(lane)

    def _admit(self, job):
        """While others run, where they are. Whether there is room; if not, the job has an error."""
        prepared = job.prepare(_leaves(job.step, job.step._example))
        there = [other for other in self.jobs if other.joined]
        states = _up(needs_of(prepared.planned)[0]) + sum(_up(needs_of(other.planned)[0]) for other in there)
        enough = max(self.capacity - states, 0)
        try:
            job.make(prepared, plan_within(prepared, enough), enough)
            job.join(next((other.lane for other in there), _OWN_LANE))
        except ValueError as error:
            job.error = BudgetError(f"{error}; the others go on", None)
            return False
        self.enough = min(self.enough, enough)
        if self._device != "cpu":
            torch.cuda.synchronize(self._device)
        job.go_on()
        return True

    def _run(self, iterations):
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
                tell("   ".join(job.progress() for job in self.jobs))
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
            tell("")
        failed = [job for job in self.jobs if job.error is not None]
        if failed:
            raise SharedError(failed) from failed[0].error
        return list(self.jobs)

    def _drop(self, job):
        if job in self.jobs:
            self.jobs.remove(job)
            job.leave()
            job.step._lend(None)


def _thread_of(job, iterations):
    return threading.Thread(target=job.work, args=(iterations, torch.get_num_threads()), name=f"ebbtide {job.name}", daemon=True)


def _leaves(step, batch):
    batch = step._batch_of((batch,), {})
    return batch, *tree_flatten_with_path(batch)


def _up(size):
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _first_line(error):
    return (str(error).splitlines() or [""])[0]
