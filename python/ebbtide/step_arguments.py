"""What users write for a budget and a link, checked; shared by every way in."""

import re

ASSUMED_LINKS = {"cpu": 4_000_000_000, "cuda": 12_000_000_000}  # bytes per second of a copy that nothing slows down


def budget_text(budget):
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        raise ValueError(f"budget {budget!r}: expected bytes, a text as '4GiB', or a share of the plain peak as '50%'")
    return str(budget)


def bandwidth(link):
    """Bytes per second; None: copies are not slowed down."""
    if link is None:
        return None
    if isinstance(link, (int, float)) and not isinstance(link, bool) and link >= 1:
        return int(link)
    match = re.fullmatch(r"([0-9.]+) ?([kMGT]?)(i?)B/s", link) if isinstance(link, str) else None
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"link {link!r}: expected bytes per second, as '12GB/s'")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " kMGT".index(match[2] or " "))
