"""The one reporter of progress: a line of a terminal that is written anew, and a message for logging.

What Ebbtide has to say goes to the logger "ebbtide". It says nothing unless the program asks for it, as by
logging.basicConfig(level=logging.DEBUG).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

log = logging.getLogger("ebbtide")
log.addHandler(logging.NullHandler())

Reporter = Callable[[str], None]  # of what is being done now; "" ends it


def report(text: str) -> None:
    """Shows what is being done, where standard error is a terminal. An empty text takes the line away."""
    if text:
        log.debug(text)
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def silent(text: str) -> None:
    """The reporter of commands that are asked to be quiet."""
    if text:
        log.debug(text)


def reporter(quiet: bool) -> Reporter:
    """`report`, or nothing on the terminal."""
    return silent if quiet else report


def counting(to: Reporter, what: str) -> Callable[[int, int], None]:
    """A function of how many are done, of how many."""
    return lambda done, of: to(f"{what}: {done} of {of}")
