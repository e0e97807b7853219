"""Benchmarks of the phantom GPU start themselves there."""

import ctypes
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
from support import on_phantom  # noqa: E402


def start_there(kernel_us):
    """Unless it is there already, begins this program anew on the phantom, with its race checker, every kernel taking so long."""
    if hasattr(ctypes.CDLL(None), "ebbtide_phantom_begin"):
        return
    if not (on_phantom.LIBRARIES / "cu13").is_dir():
        sys.exit("the build has no phantom GPU")
    environment = on_phantom.environment(EBBTIDE_PHANTOM_CHECK="race", EBBTIDE_PHANTOM_KERNEL_US=str(kernel_us))
    os.execve(sys.executable, [sys.executable, "-W", "ignore", *sys.argv], environment)
