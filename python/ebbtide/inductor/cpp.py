"""How Inductor's C++ kernels are compiled for us: while it goes on with the next program, and with some loops written better (faster.py).

Inductor's class is changed once, for the process; what changes is what threads within `not_waiting` see of it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from .faster import faster

_here = threading.local()
_installing = threading.Lock()


@contextlib.contextmanager
def not_waiting() -> Iterator[None]:
    """In this thread, Inductor goes on while compilers of C++ run: one program is lowered while another's kernels are compiled. In the end all are waited for,
    and programs are as Inductor would have left them; raises what a compiler said."""
    with _installing:
        _install()
    _here.programs = []
    try:
        yield
    finally:
        programs, _here.programs = _here.programs, None
        failed = [error for program in programs for error in _settle(program)]
    if failed:
        raise failed[0]


class Coming:
    """A kernel that is being compiled, in its place in a program: whoever calls it waits for it. Another thread may come to call it, as Inductor gives the
    same program to all who have the same graph."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self) -> Any:
        return self._future.result()

    def __call__(self, *args: Any) -> Any:
        return self.result()(*args)


def _settle(program: dict[str, Any]) -> Iterator[Exception]:
    for name, value in list(program.items()):
        if isinstance(value, Coming):
            try:
                program[name] = value.result()
            except Exception as error:  # the others are waited for all the same
                yield error


@functools.cache
def _install() -> None:
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import CodeCacheFuture

    wait, compile_cpp = AsyncCompile.wait, AsyncCompile.cpp_pybinding

    @functools.wraps(wait)
    def waiting(self: Any, scope: dict[str, Any]) -> None:
        if _programs() is None:
            return wait(self, scope)
        scope.update({name: Coming(value) for name, value in scope.items() if isinstance(value, CodeCacheFuture)})
        return _programs().append(scope)

    @functools.wraps(compile_cpp)
    def compiling(self: Any, argtypes: list[str], source_code: str) -> Any:
        return compile_cpp(self, argtypes, source_code if _programs() is None else faster(source_code))

    AsyncCompile.wait, AsyncCompile.cpp_pybinding = waiting, compiling


def _programs() -> Any:
    """Those whose kernels this thread has not waited for; None: it waits."""
    return getattr(_here, "programs", None)
