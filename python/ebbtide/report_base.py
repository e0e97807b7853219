"""What the reports on runs have in common: fields as a dictionary and as JSON, a table as repr, files by their names."""

import json

from .step_cache import write_text


class ReportBase:
    """Has a table as repr; `to_dict()` has raw bytes and nanoseconds."""

    def __init__(self, fields):
        self._fields = {"schema_version": 1} | fields

    def to_dict(self):
        return json.loads(json.dumps(self._fields))

    def to_json(self):
        return json.dumps(self._fields, indent=2)

    def save(self, path):
        """By its name: .json the fields, .txt the table, and what else the report has."""
        path = str(path)
        made = self._more_files() | {".json": lambda: self.to_json() + "\n", ".txt": self.__repr__}
        kind = next((suffix for suffix in made if path.endswith(suffix)), None)
        if kind is None:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(made)}")
        write_text(path, made[kind]())

    def _more_files(self):
        return {}


def aligned(rows):
    """Lines of rows of texts: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip() for row in rows]
