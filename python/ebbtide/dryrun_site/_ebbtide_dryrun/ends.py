"""The end of a process, however it comes: a last line, sys.exit, an exception, os._exit, SIGTERM."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time

# Long enough for a thread that waits for the interpreter to get it.
_PAUSE_SECONDS = 0.2


def call_at_the_end(finish, reset):
    """`finish` is called once per process, before the interpreter is taken apart; `reset` in a child by fork."""

    def at_exit():
        with no_interrupts():
            finish()
            _let_autograd_end()

    atexit.register(at_exit)
    os.register_at_fork(after_in_child=reset)
    exit_at_once = os._exit

    def _exit(status):
        try:
            finish()
        finally:
            exit_at_once(status)

    os._exit = _exit
    _leave_out_interrupts()


def _leave_out_interrupts():
    """A program that Ctrl-C ends, and that has nothing to say about it, ends without a traceback; the report says the rest."""
    before = sys.excepthook

    def hook(kind, error, trace):
        if not (issubclass(kind, KeyboardInterrupt) and before is sys.__excepthook__):
            before(kind, error, trace)

    sys.excepthook = hook


def _let_autograd_end():
    """The thread of a CUDA device's backward lets go of Python objects after `backward` has returned. Where kernels take
    no time, a program may be at its end by then, and PyTorch aborts."""
    time.sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def no_interrupts():
    """A second Ctrl-C, or one that reaches the process twice, waits for no answer: what is being written is short, and all there is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:  # it was Python's
            signal.signal(signal.SIGINT, before)


def call_on_sigterm(finish):
    """Where the program has no handler of its own: `finish`, then the signal does what it would have done."""
    if threading.current_thread() is not threading.main_thread():
        return
    present = signal.getsignal(signal.SIGTERM)
    if present is not None and present is not signal.SIG_DFL:
        return

    def on_sigterm(number, frame):
        if not finish():
            return  # the process ends when that is done
        _write_statistics(number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, on_sigterm)


def call_after_cells(keep):
    """In a notebook's kernel, which is killed without notice once nobody wants it any more: `keep` behind each cell."""
    try:
        shell = sys.modules["IPython"].get_ipython()
    except (KeyError, AttributeError):
        return
    if shell is None:
        return

    def after_cell(*_):
        keep()
        _of_phantom("ebbtide_phantom_keep")

    shell.events.register("post_run_cell", after_cell)


def _write_statistics(number):
    """The phantom's own, which had left this signal to us."""
    _of_phantom("ebbtide_phantom_finish", number)


def _of_phantom(name, *arguments):
    import ctypes

    try:
        getattr(ctypes.CDLL(None), name)(*arguments)
    except (AttributeError, OSError):
        pass
