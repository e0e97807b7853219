"""Which ops of a step may become part of CUDA graphs, and the stream that they are captured from."""

from __future__ import annotations

import functools
from typing import Any

import torch

_NAMESPACES = ("aten", "prims")
_TAGS = ("cudagraph_unsafe", "dynamic_output_shape", "data_dependent_output", "nondeterministic_seeded")
# They keep the random state that they draw from in the host's memory, and in the GPU's while a stream captures: other results.
_ATTENTION = ("scaled_dot_product", "flash_attention", "efficient_attention", "cudnn_attention")


def capturable(graph: dict[str, Any]) -> list[bool]:
    """Of each op of a graph, as docs/graph-format.md has it. Numbers that change from step to step are arguments of the host, and a graph would repeat
    those of its capture; so are seeds that an op draws. Kernels of Triton's read both from the GPU's memory."""
    return [_is_capturable(op) for op in graph["ops"]]


def _is_capturable(op: dict[str, Any]) -> bool:
    if op["schema"] == "ebbtide::triton.default":
        return True
    if op.get("random") or not op.get("deterministic", True) or any(_changes(value) for value in op["arguments"].values()):
        return False
    return _may_be_captured(op["schema"])


def _changes(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.keys() & {"scalar", "scalars"})


@functools.cache
def _may_be_captured(schema: str) -> bool:
    name, _, overload = schema.rpartition(".")
    namespace, _, packet = name.partition("::")
    if namespace not in _NAMESPACES or any(kind in packet for kind in _ATTENTION):
        return False
    function = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
    unsafe = {getattr(torch.Tag, tag) for tag in _TAGS if hasattr(torch.Tag, tag)}
    return function is not None and not unsafe & set(function.tags)


@functools.cache
def stream_of(device: str) -> torch.cuda.Stream:
    """The one that steps run on which capture: nothing can be captured from the default one. It waits for those of the user, and steps end with the
    host waiting for it."""
    return torch.cuda.Stream(device)
