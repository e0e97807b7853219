"""One training of an ebbtide.Shared: its batches, its thread, its numbers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from .. import native
from ..native.torch_library import library
from ..step.batch import Leaves
from ..step.prepared import Execution, Prepared, tensors_of
from ..step.state import StateChanged
from ..step.step import Step
from .plans import ANY_LANE, Arranged, own_plan_of

if TYPE_CHECKING:
    from .shared import Shared

BatchLeaves = tuple[Any, Leaves, Any]  # a batch, its leaves and its shape
_MOST_GROUPS = 100_000


class Job:
    """`losses`, `iterations`, `error` (None: all is well), `stopped`; `stop()` may be called from any thread."""

    def __init__(self, shared: Shared, step: Step, batches: Iterable[Any] | None, name: str, weight: int, priority: int,
                 after: Callable[[Job, torch.Tensor], object] | None) -> None:
        self.step, self.name, self.weight, self.priority = step, name, weight, priority
        self.losses: list[float] = []
        self.error: BaseException | None = None
        self.stopped = False
        self.held = False  # asked to take no further step in this piece of work; it keeps its memory
        self.seconds, self.waited_ns = 0.0, 0
        self.alone_ns: int | None = None  # the time of the last step that it took alone
        self.groups_ns: deque[tuple[int, int]] = deque(maxlen=_MOST_GROUPS)  # of this run: when each group began and ended
        self.execution: Execution | None = None
        self._lock, self._begun, self._called_off, self._ended = threading.Lock(), False, False, threading.Event()
        self._shared, self._batches, self._after = shared, batches, after
        self._iterator: Iterator[Any] | None = batches if isinstance(batches, Iterator) else None
        self._executions: dict[Hashable, Execution] = {}
        self._arranged: dict[Execution, Arranged] = {}  # how each runs
        self._key: Hashable = None
        self.lane, self.room = ANY_LANE, 0  # its lane and what an iteration may take of it, once it has settled
        self._random = b""  # its state, while no engine has it
        self._waiting: BatchLeaves | None = None  # the batch of a step that was undone
        self._stream = torch.cuda.Stream(step._device) if step._device != "cpu" else None
        for prepared in step._plans.values():
            if prepared.last is not None:
                self.alone_ns = prepared.last["time_ns"]
        self.prepare(self._leaves_of(step._example))
        self._random = self._own_random_now()

    @property
    def iterations(self) -> int:
        """Steps taken."""
        return len(self.losses)

    @property
    def endless(self) -> bool:
        """Whether it trains on the example, again and again."""
        return self._batches is None

    @property
    def _here(self) -> Execution:
        """How it runs batches of the present form, once it has settled."""
        assert self.execution is not None
        return self.execution

    def stop(self) -> None:
        """The step that runs is undone, and the job takes no more of them in this run."""
        self.stopped = True
        if self.execution is not None:
            self.execution.engine.stop()

    def progress(self) -> str:
        """How far it is, in a few words."""
        loss = f" loss {self.losses[-1]:.4g}" if self.losses else ""
        return f"{self.name} {self.iterations}{loss}"

    # -- in the thread of the Shared -----------------------------------------------------------------------------------

    def prepare(self, leaves: BatchLeaves) -> Prepared:
        """The plan for batches of a form."""
        self._key, prepared = self.step._prepared_for(*leaves)
        return prepared

    def runs(self, prepared: Prepared, arranged: Arranged) -> bool:
        """Whether it runs so already, or as well."""
        if self.execution is None or self.execution.prepared is not prepared or self.lane != arranged.lane:
            return False
        mine = self.arranged
        return mine is not None and _same(mine.plan, arranged.plan) and mine.height <= arranged.room

    @property
    def arranged(self) -> Arranged | None:
        """How it runs batches of the present form."""
        return None if self.execution is None else self._arranged.get(self.execution)

    def settle(self, prepared: Prepared, arranged: Arranged) -> None:
        """In the lane, with the room that was arranged. What was made for other forms of batches and needs more is forgotten."""
        runs = self.runs(prepared, arranged)
        self.lane, self.room = arranged.lane, arranged.room
        self._executions = {key: made for key, made in self._executions.items() if self._arranged[made].height <= self.room}
        self._arranged = {made: self._arranged[made] for made in self._executions.values()}
        if not runs:
            self.make(prepared, arranged)

    def make(self, prepared: Prepared, arranged: Arranged) -> None:
        """An engine in the shared pool, for batches of one form."""
        engine = native.Engine(arranged.graph, arranged.plan, library(self.step._device.partition(":")[0]), shared=self._shared.pool(),
                               height_limit=arranged.height_limit, groups=self._shared.groups)
        for op, requests in enumerate(prepared.measured.requests if prepared.measured else ()):
            if requests:
                engine.set_requests(op, requests)
        self.execution = Execution(prepared, engine, self.step._device, self.random)
        self._executions[self._key] = self.execution
        self._arranged[self.execution] = arranged._replace(state=engine.state_bytes, height=engine.height)
        engine.random_state = self._random

    @property
    def joined(self) -> bool:
        """Whether it has memory for its state in the pool."""
        return self.execution is not None and self.execution.engine.joined

    def go_on(self) -> None:
        """Before a run: what the run before has left is forgotten."""
        self.stopped = self.held = self._begun = self._called_off = False
        self.groups_ns.clear()
        self._ended.clear()
        if self.joined:
            self._here.engine.resume()

    def await_end(self) -> None:
        """Of its work, and if that has not begun, it never will."""
        with self._lock:
            self._called_off = not self._begun
        if self._called_off:
            self.leave()
        else:
            self._ended.wait()

    def join(self) -> None:
        """Takes memory for its state. Raises ValueError where there is none."""
        self._here.engine.join(self.name, self.weight, self.priority, self.lane)
        self._here.engine.random_state = self._random

    def leave(self) -> None:
        """State goes back to torch's memory, and the pool's is given back."""
        if not self.joined:
            return
        engine = self._here.engine
        with self._on_stream():
            engine.move_out()
        if self._stream is not None:
            self._stream.synchronize()
        self._random = engine.random_state
        engine.leave()

    # -- in the job's own thread ----------------------------------------------------------------------------------------

    def work(self, iterations: int | None, threads: int) -> None:
        """Takes so many steps, or those of its batches. What goes wrong is in `error`."""
        with self._lock:
            if self._called_off:
                return
            self._begun = True
        try:
            self._work(iterations, threads)
        finally:
            self._ended.set()

    def _work(self, iterations: int | None, threads: int) -> None:
        torch.set_num_threads(threads)
        started, done = time.perf_counter(), 0
        if iterations is None and not isinstance(self._batches, Iterator):
            self._iterator = self._waiting = None
        try:
            with self._on_stream():
                while (iterations is None or done < iterations) and not (self.stopped or self.held):
                    batch = self._waiting or self._next_batch(once=iterations is None)
                    if batch is None:
                        break
                    self._waiting = batch
                    loss = self._take(batch)
                    self._waiting = None
                    self.losses.append(loss.item())
                    last = self._here.prepared.last
                    assert last is not None  # of the step just taken
                    self.waited_ns += last["wait_for_turn_ns"]
                    self.groups_ns.extend(last.pop("groups_ns"))
                    done += 1
                    if self._after is not None:
                        with self.random():
                            self._after(self, loss)
        except InterruptedError:
            self.stopped = True
        except BaseException as error:  # whatever it is, it is this job's alone
            self.error = error
        self.seconds += time.perf_counter() - started
        if self.joined:
            self._here.engine.rest()
        if self.error is not None or self.stopped:
            try:
                self.leave()
            except BaseException as error:
                self.error = self.error or error

    @contextlib.contextmanager
    def random(self) -> Iterator[None]:
        """Inside, torch's generators are the job's; one job at a time."""
        engine = self._here.engine
        engine.enter_random()
        try:
            yield
        finally:
            engine.leave_random()

    def _next_batch(self, once: bool) -> BatchLeaves | None:
        if self._batches is None:
            return self._leaves_of(self.step._example)
        with self.random():
            if self._iterator is None:
                self._iterator = iter(self._batches)
            batch = next(self._iterator, None)
            if batch is None and not once and not isinstance(self._batches, Iterator):
                self._iterator = iter(self._batches)
                batch = next(self._iterator, None)
        return None if batch is None else self._leaves_of(batch)

    def _take(self, leaves: BatchLeaves) -> torch.Tensor:
        self._ready_for(leaves)
        try:
            loss = self._here.run(tensors_of(leaves[1]))
        except StateChanged:
            self._forget(self._key)
            self._ready_for(leaves)
            loss = self._here.run(tensors_of(leaves[1]))
        step = self.step
        step._collected = (step._collected + 1) % step._accumulate
        return loss

    def _ready_for(self, leaves: BatchLeaves) -> None:
        """Batches of another form have a plan of their own, and a place of their own."""
        key = self.step._key(*leaves[1:])
        if key == self._key and self.joined and self._here.prepared.still_fits():
            return
        if key in self._executions and not self._executions[key].prepared.still_fits():
            self._forget(key)
        with self.random():
            engine = self._here.engine
            prepared = self.prepare(leaves)
        self.leave()
        if key not in self._executions:
            self.make(prepared, self._shared._arranger_of_jobs().within(self, prepared, self.room, self.lane) or own_plan_of(prepared, self.lane))
        self.execution = self._executions[key]
        del engine
        self.join()

    def _forget(self, key: Hashable) -> None:
        self.leave()
        forgotten = self._executions.pop(key, None)
        if forgotten is not None:
            self._arranged.pop(forgotten, None)
        self.step._forget(key)

    def _leaves_of(self, batch: Any) -> BatchLeaves:
        batch = self.step._batch_of((batch,), {})
        return batch, *tree_flatten_with_path(batch)

    @property
    def random_state(self) -> bytes:
        """Of its own random numbers, between steps."""
        return self._here.engine.random_state if self.joined else self._random

    @random_state.setter
    def random_state(self, state: bytes) -> None:
        self._random = state
        if self.joined:
            self._here.engine.random_state = state

    def _own_random_now(self) -> bytes:
        states = [torch.get_rng_state()]
        if self._stream is not None:
            states.append(torch.cuda.get_rng_state(self.step._device))
        return b"".join(state.numpy().tobytes() for state in states)

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext()


def _same(plan: native.Plan, other: native.Plan) -> bool:
    return plan is other or plan.to_json() == other.to_json()
