"""Loads the watcher of `ebbtide dryrun` into this process, whose torch has been imported.

sitecustomize calls `begin`. Where it had no chance to (python -I, an import past all finders), the phantom GPU runs this
file under the name _ebbtide_late when the device is first used.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "_ebbtide_dryrun"


def begin(torch, late=False):
    """Once per process. Whatever goes wrong is said, and is not the program's problem."""
    if _NAME in sys.modules:
        return
    try:
        spec = importlib.machinery.PathFinder.find_spec(_NAME, [_HERE])
        package = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = package
        spec.loader.exec_module(package)
        package.begin(torch, os.environ, late)
    except Exception as error:
        version = getattr(torch, "__version__", "")
        print(f"ebbtide: cannot watch torch {version}: {error!r}", file=sys.stderr)


if __name__ == "_ebbtide_late":
    _torch = sys.modules.get("torch")
    # One that is still being imported past our finder cannot be watched yet.
    if _torch is not None and not getattr(getattr(_torch, "__spec__", None), "_initializing", False):
        begin(_torch, late=True)
