"""with ebbtide.budget("4GiB"): eager PyTorch within a limit. What autograd has saved for backward goes to the host when memory is
short, and comes back in time. See docs/run.md."""

import ctypes
import functools

import torch

from .compiling import _bytes_of
from .torch_library import library

_SMALLEST = 4096  # bytes; what is smaller stays
_FIGURES = ("live_bytes", "peak_bytes", "copied_out_bytes", "copied_in_bytes", "budget_bytes", "short_of_bytes")

_open = None  # the budget that is in force


@functools.cache
def _library():
    found = ctypes.CDLL(library())
    found.ebbtide_budget_open.argtypes = [ctypes.c_uint64]
    found.ebbtide_budget_save.argtypes = [ctypes.c_void_p]
    found.ebbtide_budget_save.restype = ctypes.c_uint64
    found.ebbtide_budget_get.argtypes = found.ebbtide_budget_drop.argtypes = [ctypes.c_uint64]
    return found


class Budget:
    """A context. `report()` has bytes since it was entered."""

    def __init__(self, limit):
        if isinstance(limit, str) and limit.strip().endswith("%"):
            raise ValueError(f"budget {limit!r}: expected bytes or a text as '4GiB'; eager code has no plain peak that is known before it runs")
        if isinstance(limit, bool) or not isinstance(limit, (int, str)):
            raise ValueError(f"budget {limit!r}: expected bytes or a text as '4GiB'")
        self._limit = _bytes_of(str(limit))
        self._hooks = self._last = None

    def __enter__(self):
        global _open
        if _open is not None:
            raise RuntimeError("a budget is in force already; expected one at a time")
        _library().ebbtide_budget_open(self._limit)
        self._hooks = torch.autograd.graph.saved_tensors_hooks(_pack, _unpack)
        self._hooks.__enter__()
        _open = self
        return self

    def __exit__(self, *error):
        global _open
        self._hooks.__exit__(*error)
        _library().ebbtide_budget_close()
        self._last = self._figures()
        _open = None

    def report(self):
        """What is in use, the most that was at once, and what was copied, in bytes."""
        if self._last is None and _open is not self:
            raise RuntimeError("the budget has not been in force yet")
        return dict(self._last or self._figures())

    def _figures(self):
        out = (ctypes.c_uint64 * len(_FIGURES))()
        _library().ebbtide_budget_figures(out)
        return dict(zip(_FIGURES, out))


class _Saved:
    """A tensor that autograd has saved. Its memory comes and goes below it."""

    number = 0

    def __init__(self, tensor):
        self.tensor, self.version = tensor.detach(), tensor._version
        self.number = _library().ebbtide_budget_save(self.tensor._cdata)

    def __del__(self):
        if self.number:
            _library().ebbtide_budget_drop(self.number)


@torch._disable_dynamo  # else torch.compile compiles the hooks too
def _pack(tensor):
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.nbytes < _SMALLEST or type(tensor) is not torch.Tensor:
        return tensor
    saved = _Saved(tensor)
    return saved if saved.number else tensor


@torch._disable_dynamo
def _unpack(saved):
    if isinstance(saved, torch.Tensor):
        return saved
    if saved.tensor._version != saved.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
            f"{tuple(saved.tensor.shape)} is at version {saved.tensor._version}; expected version {saved.version}"
        )
    if not _library().ebbtide_budget_get(saved.number):
        raise torch.OutOfMemoryError(
            f"the budget of {_open._limit if _open else 'an earlier context'} bytes cannot be kept: no room for {saved.tensor.nbytes} bytes that backward needs"
        )
    return saved.tensor.detach()  # a reference of its own: what is in use does not leave
