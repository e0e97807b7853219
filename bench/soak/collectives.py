"""Ranks that disagree about their collectives: every bug of tests/python/programs/collective_bugs.py must be reported with lines
of the program, and no run may hang. What is right there must not be reported.

  collectives.py [NAME ...]   some of them; all if none is named
"""

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "python" / "programs" / "collective_bugs.py"
MOST_SECONDS = 400
NOTHING_WRONG = "ended as if nothing were wrong"


def names():
    import importlib.util

    spec = importlib.util.spec_from_file_location("collective_bugs", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.BUGS), list(module.RIGHT)


def fault(name):
    """None where the bug was reported; else what happened."""
    command = [ROOT / "build" / "ebbtide", "dryrun", "-q", "--gpus", "2", "--", sys.executable, PROGRAM, name]
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=MOST_SECONDS,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        return f"hangs: not over after {MOST_SECONDS} s"
    lines = [line for line in done.stderr.splitlines() if line.startswith("phantom: ")]
    if done.returncode == 0:
        return NOTHING_WRONG
    if not any("collective_bugs.py:" in line for line in lines):
        return "no line of the program: " + (lines[0] if lines else done.stderr[-300:])
    print(f"{name:22} {lines[0]}")
    return None


def main():
    bugs, right = names()
    wanted = sys.argv[1:] or [*bugs, *right]
    failed = 0
    begin = time.monotonic()
    for name in wanted:
        text = fault(name)
        if name in right:
            text = None if text == NOTHING_WRONG else text or "reported, though it is right"
        if text is not None:
            failed += 1
            print(f"{name:22} FAILED: {text}")
    print(f"collectives: {len(wanted) - failed} of {len(wanted)} as they must be, {time.monotonic() - begin:.0f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
