"""Python starts with this under `ebbtide run --gpu-share`. Once torch is imported, its allocator is told the share of the
GPU that this process may take, for when it first uses CUDA: nothing is initialised here.

It takes its own folder off sys.path, and lets the sitecustomize run that it hides.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]


class _OnImport:
    """A finder that sees torch go by. Others of its kind ask all finders, so it answers nobody while it asks."""

    _asks = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None or self._asks:
            return None
        self._asks = True
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
        finally:
            self._asks = False
        return None


class _Loader:
    """Torch's own loader; once it has run, the limit is set."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _limit(module)


def _limit(torch):
    share, context = int(os.environ["EBBTIDE_SHARE_BYTES"]), int(os.environ["EBBTIDE_SHARE_CONTEXT"])

    def set_fraction():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, max(share - context, 0) / total), 0)

    try:
        torch.cuda._lazy_call(set_fraction)
    except Exception as error:
        print(f"ebbtide: the share of the GPU is not enforced: {error!r}", file=sys.stderr)


def _run_hidden_sitecustomize():
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("EBBTIDE_SHARE_BYTES"):
    sys.meta_path.insert(0, _OnImport())
_run_hidden_sitecustomize()
