"""Interrupts at chosen moments of every way in, and whether all is as before or as after: for test_interrupts.py and bench/soak/interrupts.py.

A subject does in `act()` what is interrupted, and gives in `state()` all that it may change. It has a twin, made alike, which nobody interrupts.
"""

import ctypes
import signal
import sys
import warnings

import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten

import ebbtide
from ebbtide import interrupts
from ebbtide.capture.step import capture_step
from ebbtide.step.plan import PlanOptions, make_plan
from ebbtide.step.profile import profile


class Model(torch.nn.Module):
    """Parameters, buffers that forward changes, and random numbers."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(16, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 4)

    def forward(self, x):
        return self.last(F.dropout(torch.relu(self.norm(self.first(x))), 0.3, self.training))


def batch(rows=24):
    return torch.randn(rows, 16), torch.randint(4, (rows,))


def content(*owners):
    """All that training changes: tensors of models and optimizers, and the random state."""
    leaves, shape = tree_flatten([[owner.state_dict() for owner in owners], torch.get_rng_state()])
    return str(shape), [(x.dtype, x.shape, x.contiguous().numpy().tobytes()) if isinstance(x, torch.Tensor) else x for x in leaves]


class Subject:
    budget = "95%"

    def __init__(self):
        torch.manual_seed(1)
        self.model = Model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.batch = batch()

    def act(self):
        raise NotImplementedError

    def state(self):
        return content(self.model, self.optimizer)

    def interrupted(self, press, twin):
        """An act that `press(act)` interrupts or not; then both are where the twin is after one. Whether it was interrupted."""
        before, random = self.state(), torch.get_rng_state()
        twin.act()
        after = twin.state()
        torch.set_rng_state(random)
        was = press(self.act)
        now = self.state()
        assert now in (before, after), f"{type(self).__name__}: neither as before nor as after"
        assert was or now == after
        if now != after:
            self.act()
            assert self.state() == after, f"{type(self).__name__}: after the interrupt it goes another way"
        return was


class Capture(Subject):
    """A step is captured; nothing of it changes anything."""

    def act(self):
        capture_step(self.model, F.cross_entropy, self.optimizer, self.batch)


class Measure(Subject):
    def __init__(self):
        super().__init__()
        self._graph = capture_step(self.model, F.cross_entropy, self.optimizer, self.batch).graph

    def act(self):
        profile(self._graph, runs=1, keep=False, again=True)


class Plan(Subject):
    def __init__(self):
        super().__init__()
        self._graph = profile(capture_step(self.model, F.cross_entropy, self.optimizer, self.batch).graph, runs=1, keep=False).graph

    def act(self):
        make_plan(self._graph, PlanOptions(budget="95%", link=4_000_000_000))


class Prepare(Subject):
    """The whole of ebbtide.step, and a step."""

    def act(self):
        step = ebbtide.step(self.model, F.cross_entropy, self.optimizer, self.batch, budget=self.budget)
        try:
            step(*self.batch)
        finally:
            with interrupts.deferred():
                step.close()


class Step(Subject):
    def __init__(self):
        super().__init__()
        self.step = ebbtide.step(self.model, F.cross_entropy, self.optimizer, self.batch, budget=self.budget)
        self.step(*self.batch)

    def act(self):
        self.step(*self.batch)


class Counting(Model):
    """It also counts its batches, in Python."""

    def __init__(self):
        super().__init__()
        self.batches = 0

    def forward(self, x):
        self.batches += 1
        return super().forward(x)


class Behind(Step):
    """What a step leaves to Python behind its ops: a count, and an optimizer that PyTorch runs."""

    def __init__(self):
        torch.manual_seed(1)
        self.model, self.batch = Counting(), batch()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.optimizer.register_step_post_hook(lambda *_: None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.step = ebbtide.step(self.model, F.cross_entropy, self.optimizer, self.batch, budget=self.budget)
        self.step(*self.batch)

    def state(self):
        return self.model.batches, super().state()


class Compile(Subject):
    """Forward alone: what it changes, it changes as a whole. Gradients are no state."""

    def __init__(self):
        super().__init__()
        torch._dynamo.reset()
        self.compiled = torch.compile(self.model, backend="ebbtide", options={"budget": self.budget})
        F.cross_entropy(self.compiled(self.batch[0]), self.batch[1]).backward()

    def act(self):
        loss = F.cross_entropy(self.compiled(self.batch[0]), self.batch[1])
        if torch.is_grad_enabled():
            loss.backward()


class Budget(Subject):
    """Eager code, which Ctrl-C interrupts wherever it is: only that nothing crashes, and that no budget stays in force."""

    limit = 1 << 20

    def act(self):
        with ebbtide.budget(self.limit):
            x = self.batch[0].repeat(8, 1)
            for _ in range(6):
                x = torch.tanh(x.repeat(1, 1) * 1.5)
            x.requires_grad_()
            y = x
            for _ in range(6):
                y = torch.sin(y * 1.1)
            y.sum().backward()

    def state(self):
        with ebbtide.budget(self.limit):  # else there is one already
            pass
        return b""


class Shared(Subject):
    """Two jobs. What each has done is its own; together: as many losses as there were steps."""

    def __init__(self):
        super().__init__()
        self.other = Model(48)
        other_optimizer = torch.optim.SGD(self.other.parameters(), 1e-2, momentum=0.9)
        self.other_optimizer = other_optimizer
        steps = [ebbtide.step(self.model, F.cross_entropy, self.optimizer, self.batch, budget=self.budget),
                 ebbtide.step(self.other, F.cross_entropy, other_optimizer, self.batch, budget=self.budget)]
        self.shared = ebbtide.Shared("64MiB")
        self.jobs = [self.shared.add(step) for step in steps]
        self.act()

    def act(self):
        self.shared.run(2)

    def interrupted(self, press, twin):
        was = press(self.act)
        while min(len(job.losses) for job in twin.jobs) < max(len(job.losses) for job in self.jobs):
            twin.act()
        for job, other in zip(self.jobs, twin.jobs):
            assert job.losses == other.losses[:len(job.losses)], "Shared: a job goes another way"
        assert {int(state["step"]) for state in self.optimizer.state.values()} == {len(self.jobs[0].losses)}, "Shared: losses are not updates"
        assert not self.shared._running
        return was


SUBJECTS = {"capture": Capture, "measure": Measure, "plan": Plan, "prepare": Prepare, "step": Step, "behind": Behind, "compile": Compile,
            "budget": Budget, "shared": Shared}


def at_event(n, function):
    """Calls the function and presses Ctrl-C at its n-th event, a call or a return of Python's. Returns the number of events so far, and whether
    KeyboardInterrupt came of it."""
    seen = 0

    def watch(frame, event, arg):
        nonlocal seen
        seen += 1
        if seen == n:
            signal.raise_signal(signal.SIGINT)

    try:
        try:
            sys.setprofile(watch)
            function()
        finally:
            sys.setprofile(None)
    except KeyboardInterrupt:
        return seen, True
    return seen, False


class _Event(ctypes.Structure):
    """struct sigevent of time.h, where a signal tells of the end."""

    _fields_ = (("value", ctypes.c_void_p), ("number", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_byte * 48))


class _Times(ctypes.Structure):
    """struct itimerspec: the interval, and the first time; seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("interval", "interval_ns", "first", "first_ns"))


class Presser:
    """Presses Ctrl-C: the kernel sends SIGINT when a time is over, whatever the process does then."""

    def __init__(self):
        self._library, self._timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
        monotonic, by_signal = 1, 0
        assert self._library.timer_create(monotonic, ctypes.byref(_Event(None, signal.SIGINT, by_signal)), ctypes.byref(self._timer)) == 0

    def _set(self, nanoseconds):
        times = _Times(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
        assert self._library.timer_settime(self._timer, 0, ctypes.byref(times), None) == 0

    def __call__(self, seconds, act):
        """Calls it and presses once, after so many seconds. Whether that came of it."""
        try:
            try:
                self._set(max(int(seconds * 1e9), 1))
                act()
            finally:
                self._set(0)
        except KeyboardInterrupt:
            return True
        return False
