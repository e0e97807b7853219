"""What a capture can refuse: one line that names the place and what was expected."""

import contextlib
import logging
import os
import sys
import sysconfig
import traceback

from ..errors import CaptureError
from .installed import package_of

_WRITTEN = {
    "_local_scalar_dense": ".item(), or `if`, int() or float() of a tensor,",
    "is_nonzero": "`if` on a tensor",
    "equal": "torch.equal",
    "nonzero": "torch.nonzero, torch.where(mask) or a mask as an index",
    "masked_select": "torch.masked_select",
    "_unique2": "torch.unique",
    "unique_dim": "torch.unique",
    "unique_consecutive": "torch.unique_consecutive",
    "repeat_interleave": "torch.repeat_interleave with a tensor",
    "bincount": "torch.bincount",
}


@contextlib.contextmanager
def pointing_to(*ways):
    """Adds to a refusal which of the other ways to train fits."""
    try:
        yield
    except CaptureError as error:
        raise CaptureError(f"{error}; {' or '.join(ways)} may fit") from error


def user_line(error, fallback=None):
    """'train.py:12' for the innermost frame of `error` outside of installed packages, the interpreter and Ebbtide."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = os.path.abspath(frame.filename)
        if os.path.exists(path) and is_users(path):
            return f"{_shown(path)}:{frame.lineno}"
    return fallback


def is_users(path):
    """Whether a file is the user's own: no installed package, not torch, the interpreter or Ebbtide, wherever they are."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    torch = sys.modules.get("torch")
    others = [package, sysconfig.get_paths()["stdlib"], *([os.path.dirname(torch.__file__)] if torch else ())]
    return package_of(path) is None and not any(path.startswith(os.path.join(root, "")) for root in others)


def shown_line(path, line):
    """'train.py:12'."""
    return f"{_shown(os.path.abspath(path)) if os.path.exists(path) else path}:{line}"


def _shown(path):
    """As short as the user would write it."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def one_line(error):
    """The first line of an exception's message, or its type where it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextlib.contextmanager
def refusals(during, layers):
    """Turns what goes wrong inside into a CaptureError that names the user's line, or else the layer."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it prints what the exception says
    try:
        yield
    except CaptureError as error:
        line = user_line(error)
        raise (CaptureError(f"{line}: {error}") if line else error) from error.__cause__
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise CaptureError(
            f"{_place(error, during, layers)}: {_words(error.func)} needs the values of a tensor, which a capture does not have{_beyond(error)}; "
            "expected a step whose ops and shapes do not depend on values. `ebbtide dryrun -- python train.py` takes programs whose do"
        ) from error
    except Exception as error:
        raise CaptureError(f"{_place(error, during, layers)}: {one_line(error)}") from error
    finally:
        logger.setLevel(level)


def _words(function):
    """An op whose result or its size depends on values, as the model's code writes it."""
    name = function.__name__.partition(".")[0]
    return _WRITTEN.get(name, f"torch.{name.lstrip('_')}")


def _beyond(error):
    """Where a package asks for it that the user's line has called."""
    if user_line(error) is None:
        return ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = os.path.abspath(frame.filename)
        if os.path.exists(path) and is_users(path):
            break
        package = package_of(path)
        if package not in (None, "torch", "ebbtide"):
            return f", in {package}{path.rpartition(os.sep + package)[2]}:{frame.lineno}"
    return ""


def _place(error, during, layers):
    layer = layers.current()
    return user_line(error) or during + (f", layer {layer}" if layer else "")
