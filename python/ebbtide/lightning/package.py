"""Lightning itself, under whichever of its two names it is installed; what has been imported already wins."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def _find() -> Any:
    names = ["lightning.pytorch", "pytorch_lightning"]
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            missing = error
    raise ImportError("ebbtide.lightning: expected the package lightning or pytorch-lightning to be installed") from missing


pl: Any = _find()
Callback: Any = pl.Callback
