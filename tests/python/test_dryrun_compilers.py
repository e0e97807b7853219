"""A program that ends while torch.compile is at work does not wait for kernels that nobody will launch (dryrun_site/compilers.py)."""

import concurrent.futures
import importlib.util
import os
import pathlib
import select
import subprocess
import sys
import threading
import types

import pytest

SITE = pathlib.Path(__file__).resolve().parents[2] / "python" / "ebbtide" / "dryrun_site" / "_ebbtide_dryrun"


@pytest.fixture
def compilers():
    spec = importlib.util.spec_from_file_location("compilers_of_dryrun", SITE / "compilers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_torch_has_queued_is_dropped_and_nothing_else(compilers):
    begun, gate = threading.Event(), threading.Event()
    done = []

    def running():
        begun.set()
        gate.wait()

    def compiles():
        done.append("compiled")

    compiles.__module__ = "torch._inductor.select_algorithm"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(running)
        begun.wait()
        pool.submit(compiles)
        pool.submit(done.append, "the program's own")
        pool.submit(compiles)
        compilers.leave()
        gate.set()
    assert done == ["the program's own"]


@pytest.mark.parametrize("pending, ends", [({1: "a job"}, True), ({}, False)])
def test_workers_that_have_something_to_do_are_ended_with_those_they_started(compilers, monkeypatch, pending, ends):
    starts_another = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL).pid, flush=True); sys.stdin.read()"
    worker = subprocess.Popen([sys.executable, "-c", starts_another], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = os.pidfd_open(int(worker.stdout.readline()))
    ended = select.poll()
    ended.register(child, select.POLLIN)
    try:
        pool = types.SimpleNamespace(process=worker, pending_jobs=pending)
        monkeypatch.setitem(sys.modules, "torch._inductor.async_compile", types.SimpleNamespace(_pool_set={id(pool): pool}.values()))
        compilers.leave()
        if ends:
            assert worker.wait() < 0
            assert ended.poll(60_000)
        else:
            assert worker.poll() is None and not ended.poll(0)
    finally:
        compilers._kill_with_descendants(worker.pid)
        worker.wait()
        worker.stdin.close()
        worker.stdout.close()
        os.close(child)
