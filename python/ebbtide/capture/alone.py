"""One capture at a time in a process."""

import contextlib
from collections.abc import Iterator

from .. import native


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, captures of other threads wait, and so do steps of ebbtide.Shared that draw random numbers: a capture puts hooks and patches on
    torch as a whole, which another would take for effects of its model's code, and puts torch's random state back in the end. May be nested."""
    native.hold_generator()
    try:
        yield
    finally:
        native.release_generator()
