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


class _OnImport:
    """A finder that sees torch go by. It stays: asking for torch's spec, as many packages do, is no import of it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, _Loader):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Torch's own loader; once it has run, the watch begins."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _begin(module)


def _begin(torch):
    try:
        spec = importlib.util.spec_from_file_location("_ebbtide_attach", os.path.join(_HERE, "attach.py"))
        attach = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(attach)
    except Exception as error:
        print(f"ebbtide: cannot watch torch: {error!r}", file=sys.stderr)
    else:
        attach.begin(torch)


def _run_hidden_sitecustomize():
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("EBBTIDE_DRYRUN"):
    try:
        _use_libraries_of_torch()
    except Exception:
        pass
    sys.meta_path.insert(0, _OnImport())
_run_hidden_sitecustomize()
