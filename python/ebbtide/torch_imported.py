"""What the two modules that Python starts with share (dryrun_site, share_site): a call once torch is imported, whoever imports it and when.

They load it by its path before the program begins: it imports nothing but the standard library.
"""

import importlib.machinery
import importlib.util
import sys


class _OnImport:
    """A finder that sees torch go by. It stays: asking for torch's spec, as many packages do, is no import of it.
    Others of its kind ask all finders, so it answers nobody while it asks."""

    def __init__(self, begin):
        self._begin = begin
        self._asks = False

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
                        spec.loader = _Loader(spec.loader, self._begin)
                    return spec
        finally:
            self._asks = False
        return None


class _Loader:
    """Torch's own loader; once it has run, `begin` is called with the module."""

    def __init__(self, loader, begin):
        self._loader = loader
        self._begin = begin

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._begin(module)


def after_import(begin):
    """Calls `begin(torch)` when torch has been imported."""
    sys.meta_path.insert(0, _OnImport(begin))


def run_hidden_sitecustomize():
    """Runs the environment's own sitecustomize, once the folder that hid it is off sys.path."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
