"""Python starts with this under `ebbtide run --gpu-share`. Once torch is imported, its allocator is told the share of the
GPU that this process may take, for when it first uses CUDA: nothing is initialised here.

It takes its own folder off sys.path, and lets the sitecustomize run that it hides.
"""

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


def _limit(torch):
    share, context = int(os.environ["EBBTIDE_SHARE_BYTES"]), int(os.environ["EBBTIDE_SHARE_CONTEXT"])

    def set_fraction():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, max(share - context, 0) / total), 0)

    try:
        torch.cuda._lazy_call(set_fraction)
    except Exception as error:
        print(f"ebbtide: the share of the GPU is not enforced: {error!r}", file=sys.stderr)


_torch_imported = _load("_ebbtide_torch_imported", os.path.join(os.path.dirname(_HERE), "torch_imported.py"))
if os.environ.get("EBBTIDE_SHARE_BYTES"):
    _torch_imported.after_import(_limit)
_torch_imported.run_hidden_sitecustomize()
