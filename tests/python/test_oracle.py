"""The oracle: a hundred training programs, each by plain PyTorch and by a way into Ebbtide. Equal bits or a clear refusal.

2,000 of them run in `make soak` (bench/soak/oracle.py).
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from support.oracle.program import STEPS, make_program  # noqa: E402

PROGRAMS = 100


def test_programs_are_the_same_for_the_same_seed():
    assert [make_program(seed) for seed in range(20)] == [make_program(seed) for seed in range(20)]
    assert all(0 < at < STEPS for seed in range(20) for at, _ in make_program(seed).mutations)


def oracle(*words):
    """In a process of its own, whose children run the programs: one that has trained cannot be forked."""
    here = str(pathlib.Path(__file__).parent)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-m", "support.oracle", *words], env=environment, capture_output=True, text=True)
    print(done.stdout)
    return done


@pytest.mark.usefixtures("own_cache")
def test_a_guard_that_is_taken_out_is_missed():
    done = oracle("--without-guards")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("own_cache")
def test_every_program_has_equal_bits_or_is_refused():
    done = oracle("0", str(PROGRAMS), "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    equal, refused = map(int, re.search(r": (\d+) equal, (\d+) refused", done.stdout).groups())
    assert equal > PROGRAMS / 2 and equal + refused > PROGRAMS * 0.9, done.stdout
