"""torch.compile(model, backend="ebbtide"). Begin reading with backend.py."""

from typing import Any


def reports() -> list[dict[str, Any]]:
    """What the last iteration of each compiled graph took, as dicts; see docs/run.md."""
    from .backend import reports as of_backend

    return of_backend()
