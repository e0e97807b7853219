"""Ebbtide in Ray Tune: trials that get the share of a GPU that they will take, and trials that share GPUs; see docs/trainers.md. Needs ray[tune].

What trials import is kept small: torch is imported where something is predicted or trained.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .share_of_gpu import MoreMemory, Resources, cap, resources
    from .shared_tuner import SharedTuner

_FOUND_IN = {"MoreMemory": "share_of_gpu", "Resources": "share_of_gpu", "SharedTuner": "shared_tuner", "cap": "share_of_gpu", "resources": "share_of_gpu"}


def __getattr__(name: str) -> Any:
    if name not in _FOUND_IN:
        raise AttributeError(f"module 'ebbtide.ray' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FOUND_IN[name]}"), name)


__all__ = ["MoreMemory", "Resources", "SharedTuner", "cap", "resources"]
