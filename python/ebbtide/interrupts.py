"""Ctrl-C, and whatever else a signal's handler raises, at chosen moments only.

Python calls handlers between any two instructions of the main thread, and what they raise may leave work half done. Inside `deferred()`
signals are noted instead. Their handlers are called at the next `check()`, which stands where work can be given up or undone as a whole, and
at the end at the latest. C++ code that takes long does the same (native/signals.h).
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Those that end a process or are free for users. A handler that is not a function of Python's raises nothing.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1,
            signal.SIGUSR2)
_PATIENCE = 3  # a signal that comes so often before a check is obeyed at once: the work may never come to one


class _Deferral:
    """The state of the main thread; in no other are handlers called."""

    def __init__(self) -> None:
        self.depth = 0
        self.handlers: dict[int, Any] = {}  # those that stand aside meanwhile
        self.noted: list[int] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        self.noted.append(number)
        if self.noted.count(number) >= _PATIENCE:
            self.deliver(frame)

    def deliver(self, frame: FrameType | None) -> None:
        """Calls the handler of each that was noted, and raises the first of what they raise."""
        first: BaseException | None = None
        noted, self.noted = dict.fromkeys(self.noted), []
        handlers = self.handlers
        for number in noted:
            try:
                handlers[number](number, frame)
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first

    def stand_in(self) -> None:
        self.noted = []
        self.handlers = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}
        try:
            for number in self.handlers:
                signal.signal(number, self.note)
        except BaseException:  # of a signal whose turn had not come
            self.stand_aside()
            raise

    def stand_aside(self) -> None:
        """Handlers that are back may raise at once: the others' turn comes all the same."""
        first: BaseException | None = None
        remaining = list(self.handlers.items())
        while remaining:
            try:
                number, handler = remaining[-1]
                if signal.getsignal(number) == self.note:  # else somebody has installed another
                    signal.signal(number, handler)
                remaining.pop()
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first


_main = _Deferral()


class deferred:
    """A context. One within another does nothing more; in any other thread than the main one it does nothing at all."""

    def __enter__(self) -> None:
        self._applies = threading.current_thread() is threading.main_thread()
        if not self._applies:
            return
        if _main.depth == 0:
            _main.stand_in()
        _main.depth += 1

    def __exit__(self, *error: object) -> None:
        if not self._applies:
            return
        _main.depth -= 1
        if _main.depth == 0:
            try:
                _main.stand_aside()
            finally:
                _main.deliver(sys._getframe(1))


def check() -> None:
    """Calls the handlers of signals that were noted; what they raise is raised here."""
    if _main.noted and _main.depth and threading.current_thread() is threading.main_thread():
        _main.deliver(sys._getframe(1))


def deferring(function: Callable[P, T]) -> Callable[P, T]:
    """The function with the whole of each call deferred."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        with deferred():
            return function(*args, **kwargs)

    return wrapper
