"""What the commands have in common: how a SCRIPT.py:function is called, flags that are checked, and how a command ends."""

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import sys
import warnings

from ..capture.errors import one_line, user_line
from ..errors import CaptureError
from ..files import write_text

_EXPECTED = "expected (model, loss_fn, optimizer, batch)"
_ERROR_FILE = "EBBTIDE_ERROR_FILE"  # as in cli/output.h
SIZES = ("batch_size", "image_size", "seq_len", "classes")


# As in cli/python.h: `python -m` would look into the current folder first, where a torch.py of somebody else may lie.
_WITHOUT_CURRENT_FOLDER = "import sys\nif sys.path[:1] == ['']: del sys.path[0]\n"
# What commands go on with once the script's folder is the first to be looked into: its own torch.py must not be taken for torch.
_OURS = ("torch", "ebbtide.capture.batches", "ebbtide.capture.step", "ebbtide.step.step")


def module_command(module):
    """The words that run a module of ebbtide.commands in another process."""
    return [sys.executable, "-W", "ignore", "-c",
            f"{_WITHOUT_CURRENT_FOLDER}import runpy\nrunpy.run_module('ebbtide.commands.{module}', run_name='__main__', alter_sys=True)"]


def call_script(script, function, sizes, choices):
    """What SCRIPT.py:function returns, and how it wants to be captured."""
    if not os.path.isfile(script):
        raise CaptureError(f"{script}: no such file; expected SCRIPT.py:function")
    module = _load(script)
    target = getattr(module, function, None)
    if not callable(target):
        there = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        raise CaptureError(f"{script}: no function {function!r}" + (f"; it has {', '.join(there)}" if there else ""))
    try:
        accepted = inspect.signature(target).parameters
    except (TypeError, ValueError):
        accepted = {}
    given, batch_size = sizes | choices, None
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        if "batch_size" not in accepted:  # then its example is cut or continued
            batch_size = given.pop("batch_size", None)
        refused = [name for name in given if name not in accepted]
        if refused:
            raise CaptureError(f"{script}:{function} takes no {refused[0]}; expected a parameter of that name")
    try:
        parts = target(**given)
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{user_line(error, script)}: {one_line(error)}") from error
    if not isinstance(parts, (tuple, list)) or len(parts) != 4:
        what = f"{len(parts)} values" if isinstance(parts, (tuple, list)) else f"one {type(parts).__name__}"
        raise CaptureError(f"{script}:{function} returns {what}; {_EXPECTED}")
    how = getattr(parts, "how", {})  # of ebbtide.estimate
    if batch_size is not None:
        from ..capture.batches import resized

        parts = (*parts[:3], resized(parts[3], batch_size))
    return tuple(parts), how


def _load(script):
    name = os.path.splitext(os.path.basename(script))[0]
    if name in sys.modules:  # a script may be called torch.py
        name += "_script"
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None:
        raise CaptureError(f"{script}: not a Python file; expected SCRIPT.py:function")
    module = importlib.util.module_from_spec(spec)
    for ours in _OURS:
        importlib.import_module(ours)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise CaptureError(f"{script}:{error.lineno}: {one_line(error)}") from error
    except SystemExit as error:
        raise CaptureError(f"{script}: exits when it is loaded; expected `if __name__ == '__main__'` around its program") from error
    except Exception as error:
        raise CaptureError(f"{user_line(error, script)}: {one_line(error)}") from error
    return module


def quiet_libraries():
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1 up")
    return number


def widths(text):
    return [positive(part) for part in text.split(",")]


def write_error_file(kind, error):
    """For a program that has started this one and wants to know what kind of error it was."""
    if path := os.environ.get(_ERROR_FILE):
        write_text(path, json.dumps({"kind": kind, "message": str(error)}))


class Parser(argparse.ArgumentParser):
    """One line per mistake."""

    def error(self, message):
        print(f"ebbtide: capture: {message}", file=sys.stderr)
        sys.exit(2)


def end(code):
    """At once. Autograd's thread lets go of Python objects after backward has returned; where it meets an interpreter that
    is being taken apart, PyTorch aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
