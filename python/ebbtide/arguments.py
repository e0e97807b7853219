"""What users write for sizes, links and devices, checked, and sizes as they are shown; shared by every way in."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

_MOST_BYTES = 2**63 - 1
ASSUMED_LINKS = {"cpu": 4_000_000_000, "cuda": 12_000_000_000}  # bytes per second of a copy that nothing slows down

_FASTEST = 1e18  # bytes per second; of anything


def budget_text(budget: int | str) -> str:
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        raise ValueError(f"budget {budget!r}: expected bytes, a text as '4GiB', or a share of the plain peak as '50%'")
    return str(budget)


def bandwidth(link: float | str | None) -> int | None:
    """Bytes per second; None: copies are not slowed down."""
    if link is None:
        return None
    rate = math.nan
    if isinstance(link, (int, float)) and not isinstance(link, bool):
        rate = link
    elif isinstance(link, str) and (match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)B/s", link.strip())):
        rate = float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " ")
    if not 1 <= rate < _FASTEST:
        raise ValueError(f"link {str(link)[:80]!r}: expected bytes per second from 1 on, as '12GB/s'")
    return int(rate)


def bytes_of(size: int | str, what: str = "budget") -> int:
    """'4GiB', or a number of bytes. `what` it is, for the message."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?) ?([kKMGT]?)(i?)B?", str(size))
    if match is None:
        raise ValueError(f"{what} {size!r}: expected bytes or a text as '4GiB'")
    found = Fraction(match[1].rstrip(".")) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " ")
    if found > _MOST_BYTES:
        raise ValueError(f"{what} {shortened(size)}: expected at most {_MOST_BYTES} bytes, what an address can reach")
    return int(found)


def shortened(value: object) -> str:
    """As Python shows it, within a line."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def shown_bytes(size: float | None) -> str:
    """As people read them: 1.50 GiB; nothing for None."""
    if size is None:
        return ""
    if size < 1024:
        return f"{size} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} TiB"


def device_of(device: Any) -> str:
    """'cpu' or 'cuda:0', of what users write."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f"device {str(device)!r}: expected 'cpu' or 'cuda'")
    if found.type == "cpu":
        return "cpu"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (found.index or 0) >= count:
        raise ValueError(f"device {str(device)!r}: PyTorch sees {count or 'no'} GPU{'s' if count > 1 else ''}; expected one, or the phantom GPU")
    return f"cuda:{torch.cuda.current_device() if found.index is None else found.index}"
