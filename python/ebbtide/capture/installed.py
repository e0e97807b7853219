"""Which files are installed packages, and which are the user's own, in whatever environment."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig

_NAMES = ("site-packages", "dist-packages")


def folders() -> tuple[str, ...]:
    """Where packages are installed, each with a separator at its end: of this environment, of those it sees by files of paths (an
    environment over another), of the user, and any folder of sys.path that pip has installed into (--target)."""
    return _folders(tuple(sys.path))


@functools.cache
def _folders(search: tuple[str, ...]) -> tuple[str, ...]:
    found = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    found |= {path for path in (*site.getsitepackages(), site.getusersitepackages())}
    found |= {path for path in search if path and (os.path.basename(path) in _NAMES or _has_packages(path))}
    return tuple(sorted(os.path.join(os.path.abspath(path), "") for path in found))


def _has_packages(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(".dist-info") for entry in entries)
    except OSError:
        return False  # a zip file, or nothing


def package_of(path: str) -> str | None:
    """'numpy' of .../site-packages/numpy/core.py; None: not installed."""
    for folder in folders():
        if path.startswith(folder):
            return path[len(folder):].split(os.sep)[0]
    return None
