"""The end of a process, however it comes: a last line, sys.exit, an exception, os._exit, SIGTERM."""

import atexit
import os
import signal
import sys
import threading
import time

# Long enough for a thread that waits for the interpreter to get it.
_PAUSE_SECONDS = 0.2


def call_at_the_end(finish, reset):
    """`finish` is called once per process, before the interpreter is taken apart; `reset` in a child by fork."""
    atexit.register(_let_autograd_end)  # called last
    atexit.register(finish)
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


def _write_statistics(number):
    """The phantom's own, which had left this signal to us."""
    import ctypes

    try:
        ctypes.CDLL(None).ebbtide_phantom_finish(number)
    except (AttributeError, OSError):
        pass
