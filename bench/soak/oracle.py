"""The oracle over many programs: each by plain PyTorch and by a way into Ebbtide, equal bits or a clear refusal.

ORACLE_PROGRAMS: how many, 2,000 if not given; ORACLE_FIRST: the first seed. What differs is told with the command that repeats it.
"""

import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

from support.oracle.many import main  # noqa: E402

sys.exit(main(int(os.environ.get("ORACLE_FIRST", "100000")), int(os.environ.get("ORACLE_PROGRAMS", "2000"))))
