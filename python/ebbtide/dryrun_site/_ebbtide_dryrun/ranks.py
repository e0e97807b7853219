"""Which rank of how many this process is, and what the phantom's NCCL asks of the program: where it is, and its record."""

import ctypes
import os
import sys
import threading

from . import alone, frames

_LINE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_FINISH = ctypes.CFUNCTYPE(None)


def _number(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


class Ranks:
    def __init__(self, torch):
        self.torch = torch
        self.rank = _number("RANK")
        self.world_size = _number("WORLD_SIZE")
        self.notes = []  # what absent ranks would have said, and was assumed
        self.library = None
        self.functions = ()  # kept alive while the phantom may call them

    def attach(self):
        """Ranks that a program gives itself (multiprocessing, Slurm) are known when it makes its process group."""
        distributed = self.torch.distributed
        if not distributed.is_available():
            return
        from torch.distributed import distributed_c10d

        if os.environ.get("EBBTIDE_PHANTOM_ALONE") == "1":
            alone.attach(self.torch, distributed_c10d, self.notes)

        original = distributed_c10d.init_process_group

        def init_process_group(*arguments, **keywords):
            given = keywords.get("rank", -1)
            if isinstance(given, int) and given >= 0:  # communicators may be made before the call returns
                self.rank = given
                self._tell()
            result = original(*arguments, **keywords)
            self.note()
            self._tell()
            return result

        init_process_group.__doc__ = original.__doc__
        init_process_group.__wrapped__ = original
        distributed_c10d.init_process_group = distributed.init_process_group = init_process_group

    def _tell(self):
        if self.rank is None:
            return
        try:
            ctypes.CDLL(None).ebbtide_phantom_set_rank(self.rank)
        except (AttributeError, OSError):
            pass  # no phantom in this process

    def note(self):
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()

    def start(self, finish):
        """The device has come up. `finish` writes the record, where the phantom ends the process."""
        try:
            self.library = ctypes.CDLL(None)
            set_program = self.library.ebbtide_phantom_set_program
        except (AttributeError, OSError):
            self.library = None
            return
        self.functions = _LINE(_line), _FINISH(finish)
        set_program(*self.functions)
        self.note()
        self._tell()

    def stop(self):
        """Python is about to end: nothing of it may be called any more."""
        if self.library is not None:
            self.library.ebbtide_phantom_set_program(None, None)


def _line(out, size):
    try:
        text = frames.caller(sys._getframe().f_back)
        if text is None and threading.current_thread() is not threading.main_thread():
            text = frames.caller(sys._current_frames().get(threading.main_thread().ident))
        if text is None:
            return 0
        data = text.encode()[: size - 1] + b"\0"
        ctypes.memmove(out, data, len(data))
        return 1
    except Exception:
        return 0
