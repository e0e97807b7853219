"""The tide allocator under PyTorch: memory that one stream frees serves the others as soon as the free is scheduled.

See docs/tide.md. The allocator itself is libebbtide_tide.so, beside this file; what raises torch.OutOfMemoryError comes from the library
that is compiled for the very torch (torch_library.py).
"""

from __future__ import annotations

import ctypes
import json
import pathlib
from typing import TYPE_CHECKING, Any

from .arguments import bytes_of

if TYPE_CHECKING:
    import torch

LIBRARY = pathlib.Path(__file__).parent / "libebbtide_tide.so"  # not resolved: beside the links of a build folder

_loaded: Any = None
_allocator: Any = None  # ours, once it is torch's


def use_tide(capacity: int | str | None = None, device: int = 0) -> Tide:
    """Makes the tide allocator torch's allocator of CUDA memory, for the rest of the process.

    To be called before anything is allocated on the GPU; torch refuses it afterwards. `capacity` is the most that is taken of the device, a
    number of bytes or a text as "10GiB"; None: all there is. Returns the Tide of the device.
    """
    import torch

    global _allocator
    if _allocator is None:
        from .native.torch_library import library as library_of_torch

        library, of_torch = _library(), ctypes.CDLL(library_of_torch("cuda"))
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(LIBRARY), "ebbtide_tide_malloc", "ebbtide_tide_free")
        torch.cuda.memory.change_current_allocator(allocator)
        _allocator = allocator
        library.ebbtide_tide_on_out_of_memory(of_torch.ebbtide_throw_out_of_memory)
        of_torch.ebbtide_complete_allocator(
            library.ebbtide_tide_record_stream, library.ebbtide_tide_empty_cache, library.ebbtide_tide_memory_fraction)
    tide = Tide(device)
    if capacity is not None:
        tide.set_capacity(capacity)
    return tide


def tide_pool() -> torch.cuda.MemPool:
    """A torch.cuda.MemPool that takes its memory from the tide allocator. Inside `with torch.cuda.use_mem_pool(pool)` torch's own allocator
    divides what it gets, stream by stream; what it gives back serves all streams."""
    import torch

    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(LIBRARY), "ebbtide_tide_pool_malloc", "ebbtide_tide_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    pool._ebbtide_allocator = allocator  # lives as long
    return pool


class Tide:
    """Limits and statistics of the allocator on one device."""

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self._library = _library()

    def set_capacity(self, capacity: int | str) -> None:
        """The most that is taken of the device. Raises ValueError where more is promised or in use."""
        self._check(self._library.ebbtide_tide_set_capacity(self.device, bytes_of(capacity, "capacity")))

    def set_quota(self, job: int, guaranteed: int | str = 0, limit: int | str | None = None) -> None:
        """What job number `job` can always have, and the most that it may have. Raises ValueError where it cannot be promised."""
        most = -1 if limit is None else bytes_of(limit, "limit")
        self._check(self._library.ebbtide_tide_set_quota(self.device, job, bytes_of(guaranteed, "guaranteed"), most))

    def set_job(self, stream: torch.cuda.Stream, job: int | None) -> None:
        """What is allocated for work of the torch.cuda.Stream is the job's from now on; None: nobody's."""
        self._check(self._library.ebbtide_tide_set_job(self.device, stream.cuda_stream, -1 if job is None else job))

    def empty_cache(self) -> None:
        """Gives back to the device what is free and finished."""
        self._library.ebbtide_tide_empty_cache()

    def statistics(self) -> dict[str, Any]:
        """A dict: bytes, requests by the class that met them, waits; the same of each job under "jobs"."""
        text = self._library.ebbtide_tide_statistics(self.device)
        return json.loads(text) if text else {}

    def _check(self, code: int) -> None:
        if code != 0:
            raise ValueError(self._library.ebbtide_tide_last_error().decode())


def _library() -> Any:
    global _loaded
    if _loaded is None:
        library = ctypes.CDLL(str(LIBRARY))
        library.ebbtide_tide_statistics.restype = library.ebbtide_tide_last_error.restype = ctypes.c_char_p
        library.ebbtide_tide_set_capacity.argtypes = [ctypes.c_int, ctypes.c_int64]
        library.ebbtide_tide_set_quota.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        library.ebbtide_tide_set_job.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        _loaded = library
    return _loaded
