"""One training of an ebbtide.Shared: its batches, its thread, its numbers."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_flatten_with_path

from . import _core
from .sharing_plans import plan_within
from .step_state import StateChanged
from .stepping import Execution, tensors_of
from .torch_library import library


_MOST_GROUPS = 100_000


class Job:
    """`losses`, `iterations`, `error` (None: all is well), `stopped`; `stop()` may be called from any thread."""

    def __init__(self, shared, step, batches, name, weight, priority, after):
        self.step, self.name, self.weight, self.priority = step, name, weight, priority
        self.losses, self.error, self.stopped = [], None, False
        self.seconds, self.waited_ns, self.alone_ns = 0.0, 0, None
        self.groups_ns = deque(maxlen=_MOST_GROUPS)  # of this run: when each group began and ended
        self.execution = None
        self._lock, self._begun, self._called_off, self._ended = threading.Lock(), False, False, threading.Event()
        self._shared, self._batches, self._after = shared, batches, after
        self._iterator = batches if isinstance(batches, Iterator) else None
        self._executions = {}  # key -> Execution
        self._key = None
        self.planned = None  # that it runs by
        self._random = None  # its state, while no engine has it
        self.lane = None
        self._stream = torch.cuda.Stream(step._device) if step._device != "cpu" else None
        for prepared in step._plans.values():
            if prepared.last is not None:
                self.alone_ns = prepared.last["time_ns"]
        self.prepare(self._leaves_of(step._example))
        self._random = self._own_random_now()

    @property
    def iterations(self):
        return len(self.losses)

    @property
    def endless(self):
        return self._batches is None

    def stop(self):
        """The step that runs is undone, and the job takes no more of them in this run."""
        self.stopped = True
        if self.execution is not None:
            self.execution.engine.stop()

    def progress(self):
        loss = f" loss {self.losses[-1]:.4g}" if self.losses else ""
        return f"{self.name} {self.iterations}{loss}"

    # -- in the thread of the Shared -----------------------------------------------------------------------------------

    def prepare(self, leaves):
        """The plan for batches of a form."""
        self._key, prepared = self.step._prepared_for(*leaves)
        return prepared

    def runs(self, prepared, planned):
        return self.execution is not None and self.execution.prepared is prepared and self.planned.text == planned.text

    def make(self, prepared, planned, enough):
        """An engine in the shared pool."""
        if not self.runs(prepared, planned):
            self.planned, pool = planned, self._shared.pool()
            engine = _core.Engine(planned.graph, planned.text, library(self.step._device.partition(":")[0]), shared=pool, enough=enough,
                                  groups=self._shared.groups)
            for op, requests in enumerate(prepared.measured.requests if prepared.measured else ()):
                if requests:
                    engine.set_requests(op, requests)
            self.execution = Execution(prepared, engine, self.step._device)
            self._executions[self._key] = self.execution
            engine.random_state = self._random

    @property
    def joined(self):
        return self.execution is not None and self.execution.engine.joined

    def go_on(self):
        self.stopped = self._begun = self._called_off = False
        self.groups_ns.clear()
        self._ended.clear()
        if self.joined:
            self.execution.engine.resume()

    def await_end(self):
        """Of its work, and if that has not begun, it never will."""
        with self._lock:
            self._called_off = not self._begun
        if self._called_off:
            self.leave()
        else:
            self._ended.wait()

    def join(self, lane):
        self.lane = lane
        self.execution.engine.join(self.name, self.weight, self.priority, lane)
        self.execution.engine.random_state = self._random

    def leave(self):
        """State goes back to torch's memory, and the pool's is given back."""
        if not self.joined:
            return
        engine = self.execution.engine
        with self._on_stream():
            engine.move_out()
        if self._stream is not None:
            self._stream.synchronize()
        self._random = engine.random_state
        engine.leave()

    # -- in the job's own ----------------------------------------------------------------------------------------------

    def work(self, iterations, threads):
        with self._lock:
            if self._called_off:
                return
            self._begun = True
        try:
            self._work(iterations, threads)
        finally:
            self._ended.set()

    def _work(self, iterations, threads):
        torch.set_num_threads(threads)
        started, done = time.perf_counter(), 0
        if iterations is None and not isinstance(self._batches, Iterator):
            self._iterator = None
        try:
            with self._on_stream():
                while (iterations is None or done < iterations) and not self.stopped:
                    batch = self._next_batch(once=iterations is None)
                    if batch is None:
                        break
                    loss = self._take(batch)
                    self.losses.append(loss.item())
                    last = self.execution.prepared.last
                    self.waited_ns += last["wait_for_turn_ns"]
                    self.groups_ns.extend(last.pop("groups_ns"))
                    done += 1
                    if self._after is not None:
                        with self.random():
                            self._after(self, loss)
        except InterruptedError:
            self.stopped = True
        except BaseException as error:  # noqa: BLE001: whatever it is, it is this job's alone
            self.error = error
        self.seconds += time.perf_counter() - started
        if self.error is not None or self.stopped:
            try:
                self.leave()
            except BaseException as error:  # noqa: BLE001
                self.error = self.error or error

    @contextlib.contextmanager
    def random(self):
        """Inside, torch's generators are the job's; one job at a time."""
        engine = self.execution.engine
        engine.enter_random()
        try:
            yield
        finally:
            engine.leave_random()

    def _next_batch(self, once):
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

    def _take(self, leaves):
        self._ready_for(leaves)
        try:
            loss = self.execution.run(tensors_of(leaves[1]))
        except StateChanged:
            self._forget(self._key)
            self._ready_for(leaves)
            loss = self.execution.run(tensors_of(leaves[1]))
        step = self.step
        step._collected = (step._collected + 1) % step._accumulate
        return loss

    def _ready_for(self, leaves):
        """Batches of another form have a plan of their own, and a place of their own."""
        key = self.step._key(*leaves[1:])
        if key == self._key and self.joined and self.execution.prepared.still_fits():
            return
        if key in self._executions and not self._executions[key].prepared.still_fits():
            self._forget(key)
        with self.random():
            engine = self.execution.engine
            prepared = self.prepare(leaves)
        self.leave()
        if key not in self._executions:
            self.make(prepared, plan_within(prepared, self._shared.enough), self._shared.enough)
        self.execution = self._executions[key]
        del engine
        self.join(self.lane)

    def _forget(self, key):
        self.leave()
        self._executions.pop(key, None)
        self.step._forget(key)

    def _leaves_of(self, batch):
        batch = self.step._batch_of((batch,), {})
        return batch, *tree_flatten_with_path(batch)

    def _own_random_now(self):
        states = [torch.get_rng_state()]
        if self._stream is not None:
            states.append(torch.cuda.get_rng_state(self.step._device))
        return b"".join(state.numpy().tobytes() for state in states)

    def _on_stream(self):
        return torch.cuda.stream(self._stream) if self._stream is not None else contextlib.nullcontext()
