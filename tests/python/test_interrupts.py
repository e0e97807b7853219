"""Ctrl-C in every way in: all is as before or as after, and goes on as if nothing had been. bench/soak/interrupts.py presses at 1,000 random
moments of each; here it is pressed at chosen calls and returns of Python's, some within every stretch of the work."""

import signal
import threading

import pytest
import torch
from support.interrupted import SUBJECTS, at_event

import ebbtide
from ebbtide import interrupts, native

MOMENTS = {"capture": 10, "measure": 8, "plan": 8, "prepare": 6, "step": 60, "behind": 60, "compile": 60, "budget": 120, "shared": 40}


@pytest.fixture(autouse=True)
def keyboard():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", SUBJECTS)
def test_all_is_as_before_or_as_after(name):
    subject, twin = SUBJECTS[name](), SUBJECTS[name]()
    torch.manual_seed(2)
    events = 0

    def count(act):
        nonlocal events
        events, was = at_event(-1, act)
        return was

    subject.interrupted(count, twin)
    generator = torch.Generator().manual_seed(3)
    moments = torch.randint(1, events + 1, (MOMENTS[name],), generator=generator).tolist()
    assert any([subject.interrupted(lambda act, n=n: at_event(n, act)[1], twin) for n in moments])  # not all of them were behind the end


def test_a_handler_waits_for_a_check():
    called = []
    before = signal.signal(signal.SIGUSR1, lambda *_: called.append(1))
    try:
        with interrupts.deferred():
            signal.raise_signal(signal.SIGUSR1)
            assert not called
            interrupts.check()
            assert called == [1]
            signal.raise_signal(signal.SIGUSR1)
        assert called == [1, 1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_third_is_obeyed_at_once():
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        with interrupts.deferred():
            signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_nothing_to_wait_for():
    done = []

    def work():
        with interrupts.deferred():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


class Context(native.Scope):
    def __init__(self):
        super().__init__()
        self.shut = 0

    def _open(self):
        signal.raise_signal(signal.SIGINT)

    def _shut(self, *error):
        if not self.shut:
            self.shut = 1
            signal.raise_signal(signal.SIGINT)
        self.shut += 1


def test_a_scope_that_is_interrupted_while_it_opens_is_shut():
    context = Context()
    with pytest.raises(KeyboardInterrupt), context:
        raise AssertionError("not reached")
    assert context.shut == 2  # the first time it was interrupted again


def test_a_gate_is_free_after_an_error():
    gate = native.Gate("it")
    with pytest.raises(ZeroDivisionError), gate:
        raise ZeroDivisionError
    with gate, pytest.raises(RuntimeError, match="it is running already"), gate:
        raise AssertionError("not reached")
    with gate:
        pass


def test_torch_is_not_left_patched():
    """After captures that were interrupted, eager code runs as ever."""
    subject = SUBJECTS["capture"]()
    events, _ = at_event(-1, subject.act)
    for n in range(1, events, max(events // 25, 1)):
        at_event(n, subject.act)
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        assert type(x.grad) is torch.Tensor and torch.is_grad_enabled()
        assert torch._C._len_torch_dispatch_stack() == 0
    assert ebbtide.__version__
