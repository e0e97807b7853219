"""Python starts with this under `ebbtide dryrun`. It waits for torch to be imported, then watches its memory.

It imports nothing of the program's, takes its own folder off sys.path, and lets the sitecustomize run that it hides.
Whatever goes wrong in here must not be the program's problem.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _use_libraries_of_torch():
    """Starts this Python anew where its torch was built for the other CUDA generation than the libraries it was given."""
    loaded = os.environ.get("EBBTIDE_DRYRUN_CUDA", "")
    spec = importlib.machinery.PathFinder.find_spec("torch")
    if spec is None or not spec.origin or not hasattr(sys, "orig_argv"):
        return
    names = {}
    with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
        exec(file.read(), names)
    needed = (names.get("cuda") or "").partition(".")[0]
    before = os.environ.get("EBBTIDE_DRYRUN_PRELOAD" + loaded)
    after = os.environ.get("EBBTIDE_DRYRUN_PRELOAD" + needed)
    preload = os.environ.get("LD_PRELOAD", "")
    if needed == loaded or not before or not after or before not in preload:
        return
    changes = {"LD_PRELOAD": preload.replace(before, after), "EBBTIDE_DRYRUN_CUDA": needed}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **changes})


def _begin(torch):
    try:
        attach = _load("_ebbtide_attach", os.path.join(_HERE, "attach.py"))
    except Exception as error:
        print(f"ebbtide: cannot watch torch: {error!r}", file=sys.stderr)
    else:
        attach.begin(torch)


_torch_imported = _load("_ebbtide_torch_imported", os.path.join(os.path.dirname(_HERE), "torch_imported.py"))
if os.environ.get("EBBTIDE_DRYRUN"):
    try:
        _use_libraries_of_torch()
    except Exception:
        pass
    _torch_imported.after_import(_begin)
_torch_imported.run_hidden_sitecustomize()
