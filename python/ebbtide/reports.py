"""What the reports on runs have in common: fields as a dictionary and as JSON, a table as repr, files by their names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .files import write_text
from .notebook import render


class ReportBase:
    """Has a table as repr; `to_dict()` has raw bytes and nanoseconds."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = {"schema_version": 1} | fields

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(self._fields))

    def _repr_html_(self) -> str:
        return render(self._fields, repr(self))

    def to_json(self) -> str:
        return json.dumps(self._fields, indent=2)

    def save(self, path: str | os.PathLike[str]) -> None:
        """By its name: .json the fields, .txt the table, and what else the report has."""
        path = os.fspath(path)
        made = self._more_files() | {".json": lambda: self.to_json() + "\n", ".txt": self.__repr__}
        kind = next((suffix for suffix in made if path.endswith(suffix)), None)
        if kind is None:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(made)}")
        write_text(path, made[kind]())

    def _more_files(self) -> dict[str, Callable[[], str]]:
        return {}


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of rows of texts: the first column to the left, the others to the right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip() for row in rows]
