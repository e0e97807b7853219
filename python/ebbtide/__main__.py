"""The `ebbtide` command: becomes the C++ program, and tells it which Python to start for captures."""

import os
import sys


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    # In a wheel the program lies inside the package; in a build folder the package lies in python-path/ beside it.
    candidates = [os.path.join(folder, "bin", "ebbtide"), os.path.join(folder, os.pardir, os.pardir, "ebbtide")]
    program = next((path for path in candidates if os.access(path, os.X_OK)), None)
    if program is None:
        print(f"ebbtide: expected the program at {candidates[0]}; install the package again", file=sys.stderr)
        return 2
    os.environ.setdefault("EBBTIDE_PYTHON", sys.executable)
    os.execv(program, ["ebbtide", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
