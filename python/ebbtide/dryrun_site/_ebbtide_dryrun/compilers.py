"""Compilations of torch.compile that are under way when the program ends: nobody will launch what they make, and all of them would be waited for."""

import os
import queue
import signal
import sys
import threading

_OF_TORCH = "torch._inductor"


def leave_at_the_end():
    """Before Python waits for the threads of its pools, whose own function of the same kind has to be registered first."""
    import concurrent.futures.thread  # noqa: F401

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(leave)


def leave():
    _drop_queued()
    _end_workers()
    for child in _children(os.getpid()):
        if _name(child) == "ptxas":
            _kill_with_descendants(child)


def _drop_queued():
    threads = sys.modules.get("concurrent.futures.thread")
    for waiting in set(getattr(threads, "_threads_queues", {}).values()):
        kept = []
        try:
            while True:
                item = waiting.get_nowait()
                if not _is_of_torch(item):
                    kept.append(item)
        except queue.Empty:
            pass
        for item in kept:
            waiting.put(item)


def _is_of_torch(item):
    function = getattr(item, "fn", None) or (getattr(item, "task", None) or (None,))[0]  # Python 3.14 has the latter
    function = getattr(function, "func", function)
    return (getattr(function, "__module__", None) or "").startswith(_OF_TORCH)


def _end_workers():
    """Pools that have something to do; idle ones end by themselves, at once."""
    for pool in getattr(sys.modules.get(f"{_OF_TORCH}.async_compile"), "_pool_set", ()):
        process = getattr(pool, "process", None)
        if process is not None and (getattr(pool, "pending_jobs", None) or getattr(pool, "pending_futures", None)):
            _kill_with_descendants(process.pid)


def _children(pid):
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for task in tasks:
        yield from map(int, _read(f"/proc/{pid}/task/{task}/children").split())


def _name(pid):
    return _read(f"/proc/{pid}/comm").strip()


def _read(path):
    """Empty where the process has ended meanwhile."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _kill_with_descendants(pid):
    for child in list(_children(pid)):
        _kill_with_descendants(child)
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended meanwhile
