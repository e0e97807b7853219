"""Places in the program, as people read them: "train.py:12 in forward"."""

import functools
import os
import sys
import sysconfig
import threading

_OURS = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_LIBRARY = sysconfig.get_paths().get("stdlib", "") + os.sep
_MOST = 40
# What python -c, python - and IPython call the program they are given. Generated code of dataclasses is "<string>" too, but
# allocates nothing.
_TYPED = ("<string>", "<stdin>", "<ipython-input")


def one_line(error):
    return " ".join(str(error).split())[:300]


def is_inner(path):
    """Of torch itself or of Python: not what a reader of the report looks for."""
    if path.startswith("<"):
        return not path.startswith(_TYPED)
    if path.startswith(_OURS):
        return True
    if any(installed + "torch" + os.sep in path for installed in _INSTALLED) or path.startswith(_torch_folder()):
        return True
    return path.startswith(_LIBRARY) and not any(installed in path for installed in _INSTALLED)


@functools.cache
def _torch_folder():
    """It may lie anywhere (pip install --target, a checkout)."""
    return os.path.join(os.path.dirname(sys.modules["torch"].__file__), "")


def short(path):
    """From the package on for what is installed, else from the working folder if it is below; cells by their number."""
    if os.path.basename(os.path.dirname(path)).startswith("ipykernel_"):
        return _cell(path)
    for folder in _INSTALLED:
        _, installed, rest = path.rpartition(folder)
        if installed:
            return rest
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if relative.startswith(os.pardir) else relative


def short_line(text):
    """Of "/path/to/file.py:12", and anything else as it is."""
    path, colon, line = text.rpartition(":")
    return f"{short(path)}:{line}" if colon and line.isdigit() and os.path.isabs(path) else text


def _cell(path):
    try:
        number = sys.modules["IPython"].get_ipython().compile._filename_map[path]
    except (KeyError, AttributeError):
        return os.path.basename(path)
    return f"cell {number}"


def place(path, line, function):
    return f"{short(path)}:{line}" + ("" if function == "<module>" else f" in {function}")


def _walk(frame):
    """Outermost first."""
    places = []
    while frame is not None:
        places.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return places[::-1]


def caller(frame):
    """The innermost line of the program itself at or above a frame."""
    while frame is not None:
        if not is_inner(frame.f_code.co_filename):
            return place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def present():
    """Where this thread is, innermost last. A thread of autograd has no Python of its own: then also where the main
    thread waits for it."""
    places = _walk(sys._getframe(1))
    places = [p for p in places if not p[0].startswith(_OURS)]
    if threading.current_thread() is not threading.main_thread():
        main = sys._current_frames().get(threading.main_thread().ident)
        if not any(not is_inner(p[0]) for p in places):
            places = [p for p in _walk(main) if not p[0].startswith(_OURS)] + places
    kept = [place(*p) for p in places if not p[0].startswith("<frozen")]
    return kept[-_MOST:]
