"""Operator arguments as the graph file writes them (docs/graph-format.md), by the types of the operator's schema."""

import math

import torch

from ..errors import CaptureError

_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous",
    torch.preserve_format: "preserve",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}
# Defaults in schemas are given by number.
_MEMORY_FORMAT_NUMBERS = {0: "contiguous", 1: "preserve", 2: "channels_last", 3: "channels_last_3d"}


class Scalar:
    """A host number that is an input of the graph: its place among the graph's scalars, and its value now."""

    def __init__(self, index, value):
        self.index, self.value = index, value


def name_of(value):
    """'float32' of torch.float32, 'strided' of torch.strided."""
    return str(value).rsplit(".", 1)[-1]


def bound_arguments(schema, args, kwargs):
    """(schema argument, value) for every argument in the schema's order, defaults filled in."""
    for place, argument in enumerate(schema.arguments):
        if place < len(args):
            yield argument, args[place]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]
        else:
            yield argument, argument.default_value


def encode(value, argument, schema, tensor_id):
    """The JSON value of one argument. `tensor_id` gives the number of a tensor."""
    kind = str(argument.real_type)
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor_id(value)}
    if isinstance(value, Scalar):
        return {"scalar": value.index}
    if isinstance(value, (list, tuple)):
        if "Tensor" in kind or any(isinstance(v, torch.Tensor) for v in value):
            return {"tensors": [None if v is None else tensor_id(v) for v in value]}
        if value and all(isinstance(v, Scalar) for v in value):
            return {"scalars": [v.index for v in value]}
        return [_number(v, kind, argument, schema) for v in value]
    if isinstance(value, torch.dtype):
        return {"dtype": name_of(value)}
    if isinstance(value, torch.layout):
        return {"layout": name_of(value)}
    if isinstance(value, torch.memory_format):
        return {"memory_format": _MEMORY_FORMATS[value]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, str):
        return value
    if "MemoryFormat" in kind and value in _MEMORY_FORMAT_NUMBERS:
        return {"memory_format": _MEMORY_FORMAT_NUMBERS[value]}
    return _number(value, kind, argument, schema)


def _number(value, kind, argument, schema):
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value) if "float" in kind else int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    raise CaptureError(
        f"{schema.name}: argument '{argument.name}' is a {type(value).__name__}; a graph holds numbers, strings, tensors and lists of them"
    )
