"""The ops of a captured graph as functions of tensors again, and as a graph of torch.fx's: without changes in place, decomposed as Inductor has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from .scalars import HAS_SCALARS, with_scalars

aten = torch.ops.aten
Graph = dict[str, Any]  # as docs/graph-format.md describes it


class NotFused(Exception):
    """What Inductor is not given, and why, in a few words."""


class Replay:
    """Runs ops of a graph on tensors that stand for its storages. `values`: tensor number -> tensor."""

    def __init__(self, graph: Graph, values: dict[int, torch.Tensor], scalars: Sequence[torch.Tensor]) -> None:
        self.graph, self.values, self._scalars = graph, values, scalars

    def run(self, op: dict[str, Any]) -> None:
        function = function_of(op["schema"])
        schema = function._schema
        given = {a.name: self._decoded(op, a, op["arguments"][a.name]) for a in schema.arguments}
        rule = _RULES.get(op["schema"])
        if op["schema"] in HAS_SCALARS and any(_is_scalar(value) for value in op["arguments"].values()):
            result = with_scalars(op["schema"], given)
        elif rule is not None:
            result = rule(**given)
        else:
            args = [given[a.name] for a in schema.arguments if not a.kwarg_only]
            result = function(*args, **{a.name: given[a.name] for a in schema.arguments if a.kwarg_only})
        results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]
        results = _asked_for(results, op)
        if len(results) < len(op["outputs"]):
            raise NotFused(f"{op['schema']} gave {len(results)} results; expected {len(op['outputs'])}")
        self.values.update(zip(op["outputs"], results))

    def _decoded(self, op: dict[str, Any], argument: Any, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decoded(op, argument, v) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        is_number = "Tensor" not in str(argument.real_type)
        if kind in ("tensor", "tensors") and is_number:
            raise NotFused(f"{op['schema']} reads a number from a tensor while it runs")
        if kind == "tensor":
            return self.values[content]
        if kind == "tensors":
            return [None if t is None else self.values[t] for t in content]
        if kind in ("scalar", "scalars"):
            if is_number and op["schema"] not in HAS_SCALARS:
                raise NotFused(f"{op['schema']} takes a number that changes from step to step")
            return self._scalars[content] if kind == "scalar" else [self._scalars[s] for s in content]
        return _CONSTANTS[kind](content)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.keys() & {"scalar", "scalars"})


def _asked_for(results: list[torch.Tensor], op: dict[str, Any]) -> list[torch.Tensor]:
    mask = op["arguments"].get("output_mask")
    if isinstance(mask, list) and len(mask) == len(results) and len(results) != len(op["outputs"]):
        return [r for r, wanted in zip(results, mask) if wanted]
    return results


_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "float": float, "floats": lambda values: [float(v) for v in values], "bools": list, "device": torch.device,
    "memory_format": lambda name: getattr(torch, name if name.startswith("channels") else name + "_format"),
    "dtype": lambda name: getattr(torch, name), "layout": lambda name: getattr(torch, name),
}


def function_of(schema: str) -> Any:
    """torch.ops.aten.mm.default of "aten::mm.default"."""
    name, _, overload = schema.rpartition(".")
    namespace, _, packet = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


# -- ops that are others to Inductor -------------------------------------------------------------------------------------


def _bernoulli_(self: torch.Tensor, p: float, generator: Any = None) -> torch.Tensor:
    """As Inductor draws for dropout."""
    if torch._inductor.config.fallback_random:
        return aten.bernoulli_.float(self, p)
    return self.copy_(torch.rand_like(self, dtype=torch.float32) > 1 - p)


def _batch_norm(input: torch.Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float) -> Any:
    """The form whose schema says that running statistics are written."""
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)
    return aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, training, momentum, eps)


_RULES: dict[str, Callable[..., Any]] = {"aten::bernoulli_.float": _bernoulli_, "aten::native_batch_norm.default": _batch_norm}


def traced(function: Callable[..., Any], inputs: Sequence[torch.Tensor], mode: FakeTensorMode) -> torch.fx.GraphModule:
    """What `function` computes of fakes, without changes in place but for those of inputs, which come last."""
    with torch._dispatch.python.enable_python_dispatcher(), torch.no_grad(), mode:
        module = make_fx(torch.func.functionalize(function, remove="mutations"), decomposition_table=select_decomp_table())(*inputs)
    _without_copies(module)
    return module


def _without_copies(module: torch.fx.GraphModule) -> None:
    """copy(a, b), which a change in place has become, is b."""
    for node in module.graph.find_nodes(op="call_function", target=aten.copy.default):
        target, value = node.args[0].meta["val"], node.args[1].meta["val"]
        if target.shape != value.shape:
            continue
        new = node.args[1]
        if target.dtype != value.dtype:
            with module.graph.inserting_before(node):
                new = module.graph.call_function(torch.ops.prims.convert_element_type.default, (new, target.dtype))
                new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
