"""Files of ours: small JSON ones that are kept from run to run. One that cannot be read is as good as none."""

import json
import os
import tempfile


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_json(path, value):
    """A folder that cannot be written to is no error: then nothing is kept."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_text(path, json.dumps(value))
    except OSError:
        pass


def write_text(path, text):
    """Under a temporary name first, so that a reader never sees half a file."""
    path = os.path.abspath(path)
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
