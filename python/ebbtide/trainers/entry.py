"""What Lightning's entry point loads for every Trainer of a process. Imports nothing unless the environment asks for it."""

from __future__ import annotations

import os
from typing import Any

BUDGET, WAY = "EBBTIDE_LIGHTNING_BUDGET", "EBBTIDE_LIGHTNING_WAY"


def callbacks() -> list[Any]:
    """None, unless the environment has a budget for every Trainer."""
    if not os.environ.get(BUDGET):
        return []
    from ..lightning import EbbtideCallback

    return [EbbtideCallback(os.environ[BUDGET], os.environ.get(WAY, "compile"))]
