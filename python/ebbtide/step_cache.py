"""Small JSON files that are kept from run to run. A file that cannot be read is as good as none."""

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
    """Under a temporary name first. A folder that cannot be written to is no error: then nothing is kept."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False, encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(file.name, path)
    except OSError:
        pass
