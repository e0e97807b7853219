"""Follows PyTorch's operators on the phantom GPU: what they read and write, for the race checker, and what their skipped
kernels would have written, as far as that is known (observer/values.h).

The observer is a small library in C++ (observer/) that is compiled for the minor version of the torch it is loaded into. A wheel
has it for the versions that it was made for, a build folder for the torch of its environment; for any other it is compiled at
its first use and kept in the user's cache folder, with a sum that tells whether it is whole.
"""

import ctypes
import json
import os
import pathlib
import sysconfig

from .files import kept_library
from .torch_package import LibraryError, TorchPackage, compile_for


class ObserverError(RuntimeError):
    """One line: what is missing."""


def start():
    """Loads the observer into this process, which must run under the phantom with EBBTIDE_PHANTOM_CHECK=race.

    Imports torch. Raises ObserverError where it cannot be loaded.
    """
    import torch

    path = _find()
    library = ctypes.CDLL(str(path))
    if library.ebbtide_observer_start(_inner_folders(torch)) != 0:
        raise ObserverError("this process does not run under the phantom GPU")
    _heed_queries(torch)


class Values:
    """What skipped kernels would have written, followed from now on; what was assumed where nobody knows it.

    `assume`: "masks=0.5,experts=first", as `ebbtide dryrun --assume` has it. Raises ObserverError as `start`.
    """

    def __init__(self, assume=""):
        import torch

        self._library = ctypes.CDLL(str(_find()))
        self._library.ebbtide_values_report.restype = ctypes.c_char_p
        self._library.ebbtide_values_error.restype = ctypes.c_char_p
        answer = self._library.ebbtide_values_start(_inner_folders(torch), assume.encode())
        if answer == 2:
            raise ObserverError(f"--assume: {self._library.ebbtide_values_error().decode()}")
        if answer != 0:
            raise ObserverError("this process does not run under the phantom GPU")

    def report(self):
        """{"assumptions": [{"line", "what", "led_to", "assumed", "count"}], "left_out": how many were too many}."""
        return json.loads(self._library.ebbtide_values_report().decode(errors="replace"))


def _inner_folders(torch):
    """Whose lines are not the program's: torch's, Python's own, those of what watches a dry run."""
    folders = [os.path.dirname(torch.__file__), sysconfig.get_paths()["stdlib"], str(pathlib.Path(__file__).resolve().parent / "dryrun_site")]
    return os.fsencode("\n".join(os.path.join(folder, "") for folder in folders))


def start_timing():
    """Has PyTorch's operators take the time that is modelled for them. False: the phantom models none.

    Raises ObserverError as `start`.
    """
    return ctypes.CDLL(str(_find())).ebbtide_observer_time() == 0


def _heed_queries(torch):
    """What the program itself asks about orders what it does next; what allocators ask about does not."""
    phantom = ctypes.CDLL(None)

    def heeding(query):
        def heeded(self):
            phantom.ebbtide_phantom_query_begin()
            try:
                return query(self)
            finally:
                phantom.ebbtide_phantom_query_end()

        heeded.__doc__ = query.__doc__
        return heeded

    torch.cuda.Event.query = heeding(torch.cuda.Event.query)
    torch.cuda.Stream.query = heeding(torch.cuda.Stream.query)


def _find():
    try:
        torch = TorchPackage()
        name = torch.build_name("observer")
        phantom = _phantom_folder()
        if phantom and (phantom / "observer" / name).is_file():
            return phantom / "observer" / name
        return kept_library("observer", name, lambda path: compile_for(torch, {"observer": path}))
    except LibraryError as error:
        raise ObserverError(str(error)) from None


def _phantom_folder():
    """Of the phantom's own library in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.rstrip().endswith("/libebbtide_phantom.so"):
                return pathlib.Path(line.split(maxsplit=5)[5].rstrip()).parent
    return None
