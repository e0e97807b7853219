"""Files of ours: small JSON ones that are kept from run to run. One that cannot be read is as good as none."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any


def cache_folder() -> pathlib.Path:
    """Where what was worked out is kept from run to run."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ebbtide"


def read_json(path: str | os.PathLike[str]) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """A folder that cannot be written to is no error: then nothing is kept."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_text(path, json.dumps(value))
    except OSError:
        pass


def write_text(path: str | os.PathLike[str], text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Under a temporary name first, so that a reader never sees half a file."""
    path = os.path.abspath(path)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        try:
            file.write(content)
            file.flush()
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
