"""The `ebbtide` command: becomes the C++ program, and tells it which Python to start for captures."""

from __future__ import annotations

import os
import sys

# In a wheel the program lies inside the package; in a build folder the package lies in python-path/ beside it.
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CANDIDATES = [os.path.join(_FOLDER, "bin", "ebbtide"), os.path.join(_FOLDER, os.pardir, os.pardir, "ebbtide")]


def find_program() -> str | None:
    """The path of the C++ program, or None."""
    return next((path for path in _CANDIDATES if os.access(path, os.X_OK)), None)


def main() -> int:
    program = find_program()
    if program is None:
        print(f"ebbtide: expected the program at {_CANDIDATES[0]}; install the package again", file=sys.stderr)
        return 2
    os.environ.setdefault("EBBTIDE_PYTHON", sys.executable)
    os.execv(program, ["ebbtide", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
