"""The phantom's virtual clock: what a step takes of the GPU."""

import ctypes
import statistics

from . import frames, values

_MOST = 100_000  # ends of steps that are kept


class Clock:
    def __init__(self):
        self.ends = []  # of steps, in nanoseconds
        self.phantom = None  # the functions of src/phantom/core/declare.h; None: not there, or without times

    def start(self, notes):
        """The device has come up."""
        try:
            library = ctypes.CDLL(None)
            library.ebbtide_phantom_ready.restype = ctypes.c_int64
            library.ebbtide_phantom_guessed_launches.restype = ctypes.c_int64
            if not library.ebbtide_phantom_times_ops():
                return
        except (AttributeError, OSError):
            return
        self.phantom = library
        try:
            values.observer().start_timing()
        except Exception as error:
            notes.append(f"kernels are timed by their number of threads alone: {frames.one_line(error)}")

    def step_has_ended(self):
        if self.phantom is not None and len(self.ends) < _MOST:
            self.ends.append(self.phantom.ebbtide_phantom_ready())

    def no_step_yet(self):
        self.ends = []

    def step_time(self):
        """The median from one step's end to the next; the first is left out, since programs set up and tune in it.

        None where there are no two steps, or no times.
        """
        times = [end - begin for begin, end in zip(self.ends, self.ends[1:])]
        return int(statistics.median(times)) if times else None

    def guessed(self):
        return int(self.phantom.ebbtide_phantom_guessed_launches()) if self.phantom is not None else 0
