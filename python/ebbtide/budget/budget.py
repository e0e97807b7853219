"""with ebbtide.budget("4GiB"): eager PyTorch within a limit. What autograd has saved for backward goes to the host when memory is
short, and comes back in time. See docs/run.md."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import torch

from .. import interrupts, native
from ..arguments import bytes_of, device_of
from ..native.torch_library import library

_SMALLEST = 4096  # bytes; what is smaller stays
_FIGURES = ("live_bytes", "peak_bytes", "copied_out_bytes", "copied_in_bytes", "budget_bytes", "short_of_bytes")

_in_force: dict[torch.device, Budget] = {}
os.register_at_fork(after_in_child=_in_force.clear)  # a child, as a DataLoader's worker, has no budget


@functools.cache
def _library(kind: str) -> Any:
    found = ctypes.CDLL(library(kind))
    found.ebbtide_budget_open.argtypes = [ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)]
    found.ebbtide_budget_get.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    found.ebbtide_budget_figures.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    found.ebbtide_budget_error.restype = ctypes.c_char_p
    return found


class Budget(native.Scope):
    """A context. `report()` has bytes since it was entered. The other methods are those that autograd's hooks call."""

    def __init__(self, limit: int | str, device: str | torch.device | None = None) -> None:
        super().__init__()
        if isinstance(limit, str) and limit.strip().endswith("%"):
            raise ValueError(f"budget {limit!r}: expected bytes or a text as '4GiB'; eager code has no plain peak that is known before it runs")
        if isinstance(limit, bool) or not isinstance(limit, (int, str)):
            raise ValueError(f"budget {limit!r}: expected bytes or a text as '4GiB'")
        self.limit = bytes_of(limit)
        self._device = torch.device(device_of(device or ("cuda" if torch.cuda.is_available() else "cpu")))
        self._number = -1 if self._device.type == "cpu" else self._device.index
        self._hooks: Any = None
        self._functions: list[Any] = []  # addresses of those that save a storage and let go of it
        self._native: Any = None
        self._handle: ctypes.c_void_p | None = None
        self._last: dict[str, int] | None = None  # the figures, once it is no longer in force

    def _open(self) -> None:
        if self._device in _in_force:
            raise RuntimeError(f"a budget is in force already for the device {str(self._device)!r}; expected one at a time")
        with interrupts.deferred():
            self._native, handle = _library(self._device.type), ctypes.c_void_p()
            self._functions = [ctypes.cast(f, ctypes.c_void_p).value for f in (self._native.ebbtide_budget_save, self._native.ebbtide_budget_drop)]
            self.check(self._native.ebbtide_budget_open(self._number, self.limit, ctypes.byref(handle)))
            self._handle, self._last, _in_force[self._device] = handle, None, self
            hooks = torch.autograd.graph.saved_tensors_hooks(_pack, _unpack)
            hooks.__enter__()
            self._hooks = hooks

    def _shut(self, *error: Any) -> None:
        with interrupts.deferred():
            hooks, self._hooks = self._hooks, None
            if hooks is not None:
                hooks.__exit__(*error)
            if _in_force.get(self._device) is self:
                self._last = self._figures()
                del _in_force[self._device]
                self.check(self._native.ebbtide_budget_close(self._number))

    def report(self) -> dict[str, int]:
        """What is in use, the most that was at once, and what was copied, in bytes."""
        if self._last is None and _in_force.get(self._device) is not self:
            raise RuntimeError("the budget has not been in force yet")
        return dict(self._last or self._figures())

    def save(self, tensor: torch.Tensor) -> native.Held:
        """What the tensor's storage is saved as, until nobody has it any more. Its number is 0 where it is not memory of this budget."""
        assert self._handle is not None  # it has been in force
        take, give_back = self._functions
        return native.Held(take, give_back, self._handle.value or 0, tensor._cdata)

    def get(self, number: int) -> None:
        """Has the storage in memory again."""
        self.check(self._native.ebbtide_budget_get(self._handle, number))

    def check(self, status: int) -> None:
        """Raises the library's last error, if `status` is one."""
        if status:
            kind = torch.OutOfMemoryError if status == 1 else RuntimeError
            raise kind(self._native.ebbtide_budget_error().decode())

    def _figures(self) -> dict[str, int]:
        out = (ctypes.c_uint64 * len(_FIGURES))()
        self.check(self._native.ebbtide_budget_figures(self._handle, out))
        return dict(zip(_FIGURES, out))


class _Saved:
    """A tensor that autograd has saved. Its memory comes and goes below it."""

    def __init__(self, tensor: torch.Tensor, budget: Budget) -> None:
        self.tensor, self.version, self.budget = tensor.detach(), tensor._version, budget
        self.held = budget.save(self.tensor)


@torch._disable_dynamo  # else torch.compile compiles the hooks too
def _pack(tensor: torch.Tensor) -> torch.Tensor | _Saved:
    budget = _in_force.get(tensor.device)
    if budget is None or tensor.layout != torch.strided or tensor.nbytes < _SMALLEST or type(tensor) is not torch.Tensor:
        return tensor
    saved = _Saved(tensor, budget)
    return saved if saved.held.number else tensor


@torch._disable_dynamo
def _unpack(saved: torch.Tensor | _Saved) -> torch.Tensor:
    if isinstance(saved, torch.Tensor):
        return saved
    if saved.tensor._version != saved.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
            f"{tuple(saved.tensor.shape)} is at version {saved.tensor._version}; expected version {saved.version}"
        )
    tensor = saved.tensor.detach()  # a reference of its own: what is in use does not leave
    saved.budget.get(saved.held.number)
    return tensor
