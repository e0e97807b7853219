"""The end of a process, however it comes: a last line, sys.exit, an exception, os._exit, SIGTERM."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time

from . import compilers

# Long enough for a thread that waits for the interpreter to get it.
_PAUSE_SECONDS = 0.2
# So long the main thread may be in native code when a signal wants it to end.
_MAIN_THREAD_SECONDS = 3


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


def call_on_signals(finish):
    """SIGTERM, where the program has no handler of its own: `finish`, then the signal does what it would have done. An interrupt raises
    KeyboardInterrupt as ever. Python calls handlers in the main thread alone, between two of its instructions; where that thread is in native
    code and stays there (a backward pass whose kernels another thread is compiling), the process ends with its record all the same."""
    if threading.current_thread() is not threading.main_thread():
        return
    heard = threading.Event()

    def on_sigterm(number, frame):
        heard.set()
        if not finish():
            return  # the process ends when that is done
        _write_statistics(number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def on_interrupt(number, frame):
        heard.set()
        signal.default_int_handler(number, frame)

    ours = {}
    for number, defaults, handler in ((signal.SIGTERM, (signal.SIG_DFL, None), on_sigterm), (signal.SIGINT, (signal.default_int_handler,), on_interrupt)):
        if signal.getsignal(number) in defaults:
            signal.signal(number, handler)
            ours[number] = handler
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(read, True)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    if before != -1:  # somebody else listens
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)
        return
    os.register_at_fork(after_in_child=_listen_no_more)
    threading.Thread(target=_end_where_nobody_hears, args=(read, heard, ours, finish), name="ebbtide-signals", daemon=True).start()


def _listen_no_more():
    """A child shares the pipe, and its signals are its own."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)


def _end_where_nobody_hears(read, heard, ours, finish):
    while number := os.read(read, 1):
        if number[0] not in ours or signal.getsignal(number[0]) is not ours[number[0]]:
            continue
        if heard.wait(_MAIN_THREAD_SECONDS):
            heard.clear()
            continue
        finish()
        compilers.leave()
        _write_statistics(number[0])
        os._exit(128 + number[0])


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
