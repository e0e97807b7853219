"""Scratch memory of ops for which an estimate has no rule: each such call of a captured step is made once on the phantom GPU, where
PyTorch asks its own allocator for all that it would ask for on a real one, and no kernel runs."""

import ctypes
import json

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from .. import native
from .record import Ref


def on_phantom():
    return hasattr(ctypes.CDLL(None), "ebbtide_phantom_begin")


def add_scratch(graph, recorder, places):
    """Gives every op of the graph whose scratch memory no rule knows its `workspace`, if it has any. `places`: of ops among the recorder's, by the
    id of the op's dict. The graph's meta then names the kinds that were measured. Where there is no phantom GPU nothing is measured (contents
    are made up, which a real GPU's kernels may not survive), and an estimate names what it leaves out."""
    if not on_phantom():
        return
    known, kinds, failed = {}, set(), set()
    for number in native.without_scratch_rule(native.Graph(json.dumps(graph), graph["name"])):
        op = graph["ops"][number]
        place = places[id(op)]
        key = signature(recorder, place)
        if key not in known:
            known[key] = scratch_of(recorder, place)
        (failed if known[key] is None else kinds).add(op["kind"])
        if known[key]:
            op["workspace"] = known[key]
    if kinds - failed:
        graph["meta"]["scratch_measured"] = " ".join(sorted(kinds - failed))


def scratch_of(recorder, place):
    """Bytes that a recorded call takes beyond its results at most; None where it cannot be made."""
    function, args, kwargs = recorder.calls[place]
    made = {}
    with _disable_current_modes(), torch.no_grad():
        try:
            args, kwargs = tree_map_only(Ref, lambda ref: _stand_in(recorder, ref.number, made), (args, kwargs))
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            result = function(*args, **kwargs)
            peak, after = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
            del result
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return None  # it looks at values, or is larger than the phantom
    return max(0, peak - max(after, before))


def signature(recorder, place):
    function, args, kwargs = recorder.calls[place]

    def described(ref):
        tensor = recorder.tensors[ref.number]
        return (tensor["dtype"], tuple(tensor["shape"]), tuple(tensor.get("stride", ())), tensor.get("offset", 0))

    return repr((function, tree_map_only(Ref, described, (args, kwargs))))


def _stand_in(recorder, number, made):
    """A tensor with a recorded one's shape, strides, offset and device. Its contents mean nothing."""
    if number not in made:
        tensor = recorder.tensors[number]
        dtype, shape = getattr(torch, tensor["dtype"]), tensor["shape"]
        offset = tensor.get("offset", 0)
        stride = tensor.get("stride") or torch.empty(shape, device="meta").stride()
        extent = offset + 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if all(shape) else offset
        base = torch.empty(extent, dtype=dtype, device=recorder.devices[number])
        made[number] = base.as_strided(shape, stride, offset)
    return made[number]
