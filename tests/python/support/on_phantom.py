"""Programs of tests that run on the phantom GPU, each in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = pathlib.Path(os.environ.get("EBBTIDE_PHANTOM_LIBRARIES") or HERE.parents[2] / "build" / "phantom")

# By the CUDA of their torch. The second is tried where EBBTIDE_TORCH12_PYTHON names the Python of an environment with such a torch.
PYTHONS = {"cu13": sys.executable, "cu12": os.environ.get("EBBTIDE_TORCH12_PYTHON")}

needs_phantom = pytest.mark.skipif(not (LIBRARIES / "cu13").is_dir(), reason="the build has no phantom GPU")

# Autograd's thread lets go of its last tensors after backward has returned; where it needs Python for that and Python is
# already ending, PyTorch aborts the process. Kernels take no time here, so that is no rare event. dryrun sees to it itself.
CALM_END = "import atexit, time; atexit.register(time.sleep, 0.3)\n"


def environment(cuda="cu13", before=(), **variables):
    """That of this process without its settings of Ebbtide and PyTorch, with the phantom's libraries, `before` them some others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EBBTIDE_", "PYTORCH_"))}
    libraries = [*before, *sorted((LIBRARIES / cuda).iterdir())]
    return {**kept, "LD_PRELOAD": ":".join(map(str, libraries)), "OMP_NUM_THREADS": "1", **variables}


def importable():
    """A PYTHONPATH with what this process and the tests can import."""
    return os.pathsep.join([*filter(None, sys.path), str(HERE.parent)])


def run_program(code, folder, cuda="cu13", **variables):
    """Runs folder/program.py, and is what it said; the phantom's statistics are in the folder."""
    program = folder / "program.py"
    program.write_text(code)
    done = subprocess.run([PYTHONS[cuda], "-W", "ignore", str(program)], capture_output=True, text=True, cwd=folder, timeout=600,
                          env=environment(cuda, **{"EBBTIDE_PHANTOM_OUTPUT": str(folder), **variables}))
    assert done.returncode == 0, done.stderr
    return done


def statistics_in(folder):
    """Of each process that ran there."""
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def on_each_cuda(head, whole):
    """A fixture: a function that runs a program behind `head`: (what it printed, a JSON value a line; standard error; the phantom's
    statistics). `whole(code)` is what becomes of its text."""

    @pytest.fixture(params=list(PYTHONS))
    def run(request, tmp_path):
        if not PYTHONS[request.param]:
            pytest.skip("no torch for CUDA 12: EBBTIDE_TORCH12_PYTHON")

        def program(code, **variables):
            done = run_program(CALM_END + head + whole(textwrap.dedent(code)), tmp_path, request.param, **variables)
            (statistics,) = statistics_in(tmp_path)
            return [json.loads(line) for line in done.stdout.splitlines()], done.stderr, statistics

        return program

    return run
