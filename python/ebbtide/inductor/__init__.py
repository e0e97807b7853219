"""A captured step in Inductor's kernels. Begin reading with fuse.py; docs/inductor.md tells how it is made."""

from __future__ import annotations

import torch

KERNELS = ("eager", "inductor")
_FIRST, _LAST = (2, 11), (2, 15)  # the minor versions of torch whose programs and whose compiler's functions are known


def check_kernels(kernels: str) -> None:
    """Raises ValueError for kernels that there are not, or not with this torch."""
    if kernels not in KERNELS:
        raise ValueError(f"kernels {kernels!r}: expected one of {', '.join(KERNELS)}")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if kernels == "inductor" and not _FIRST <= version <= _LAST:
        raise ValueError(f"kernels 'inductor': expected torch {_shown(_FIRST)} to {_shown(_LAST)}, whose programs are known; this is torch "
                         f"{torch.__version__}. Kernels 'eager' run with it")


def _shown(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
