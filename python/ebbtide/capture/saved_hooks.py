"""The hooks that pack what autograd saves here and now: newer versions of torch tell. In others, those that begin after this is imported are noted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

_autograd = torch._C._autograd
_noted = threading.local()

Hooks = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def top() -> Hooks | None:
    """The innermost, (pack, unpack)."""
    if hasattr(_autograd, "_top_saved_tensors_default_hooks"):
        return _autograd._top_saved_tensors_default_hooks(True)  # whether or not something is being traced
    stack = getattr(_noted, "stack", None)
    return stack[-1] if stack else None


def _note() -> None:
    push, pop = _autograd._push_saved_tensors_default_hooks, _autograd._pop_saved_tensors_default_hooks

    def noted_push(pack: Any, unpack: Any) -> None:
        push(pack, unpack)
        if not hasattr(_noted, "stack"):
            _noted.stack = []
        _noted.stack.append((pack, unpack))

    def noted_pop() -> None:
        pop()
        if getattr(_noted, "stack", None):
            _noted.stack.pop()

    _autograd._push_saved_tensors_default_hooks, _autograd._pop_saved_tensors_default_hooks = noted_push, noted_pop


if not hasattr(_autograd, "_top_saved_tensors_default_hooks"):
    _note()
