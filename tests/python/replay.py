"""Runs a captured graph on real tensors, op by op, from nothing but what the graph file holds."""

import torch


class Replay:
    """`memory` maps storage numbers to real tensors for all that exists before the step. `check_writes`: fail where an op
    changes a storage that the graph does not call mutated, or does not change... shapes as recorded."""

    def __init__(self, graph, memory, check_writes=False):
        self._graph, self._check = graph, check_writes
        self._memory = memory
        self._last_use = {}
        for place, op in enumerate(graph["ops"]):
            for tensor in op["inputs"] + op["outputs"]:
                self._last_use[tensor] = place
        self._keep = set(graph["outputs"])

    def step(self, scalars):
        """One step; returns the tensors of the graph's outputs."""
        graph, values = self._graph, {}
        produced = {t for op in graph["ops"] for t in op["outputs"]}
        for number, tensor in enumerate(graph["tensors"]):
            if number not in produced:
                values[number] = self._view(tensor)
        for place, op in enumerate(graph["ops"]):
            function = _function(op["schema"])
            args = [_decode(op["arguments"][a.name], a, values, scalars) for a in function._schema.arguments if not a.kwarg_only]
            kwargs = {
                a.name: _decode(op["arguments"][a.name], a, values, scalars) for a in function._schema.arguments if a.kwarg_only
            }
            before = self._fingerprints(op, values) if self._check else None
            with torch.no_grad():
                result = function(*args, **kwargs)
            results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]
            assert len(results) == len(op["outputs"]), f"op {place} {op['kind']}: {len(results)} results"
            for number, tensor in zip(op["outputs"], results):
                self._compare(place, op, number, tensor)
                values[number] = tensor
            if self._check:
                self._check_writes(place, op, values, before)
            for number in set(op["inputs"] + op["outputs"]):
                if self._last_use[number] == place and number not in self._keep:
                    del values[number]
        return [values[t] for t in graph["outputs"]]

    def _view(self, tensor):
        real = self._memory[tensor["storage"]]
        shape = tensor["shape"]
        stride = tensor.get("stride") or list(torch.empty(shape, device="meta").stride())
        return real.as_strided(shape, stride, tensor.get("offset", 0))

    def _compare(self, place, op, number, real):
        """What was recorded about a tensor is what the kernel gives."""
        recorded = self._graph["tensors"][number]
        assert list(real.shape) == recorded["shape"], f"op {place} {op['kind']}: shape {list(real.shape)}, not {recorded['shape']}"
        assert str(real.dtype) == f"torch.{recorded['dtype']}", f"op {place} {op['kind']}: {real.dtype}, not {recorded['dtype']}"

    @staticmethod
    def _fingerprints(op, values):
        return {n: values[n].detach().clone() for n in op["inputs"]}

    @staticmethod
    def _check_writes(place, op, values, before):
        mutated_memory = {values[n].untyped_storage().data_ptr() for n in op.get("mutated", [])}
        for number, old in before.items():
            if values[number].untyped_storage().data_ptr() in mutated_memory:
                continue
            same = torch.equal(torch.nan_to_num(old), torch.nan_to_num(values[number])) if old.numel() else True
            assert same, f"op {place} {op['kind']} changes tensor {number} and does not say so"


def _function(schema):
    name, overload = schema.rsplit(".", 1)
    namespace, packet = name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _decode(value, argument, values, scalars):
    if isinstance(value, list):
        return [_decode(v, argument, values, scalars) for v in value]
    if not isinstance(value, dict):
        return value
    (kind, content), = value.items()
    takes_numbers = "Tensor" not in str(argument.real_type)
    if kind == "tensor":
        return values[content].item() if takes_numbers else values[content]
    if kind == "tensors":
        return [None if t is None else values[t].item() if takes_numbers else values[t] for t in content]
    if kind == "scalar":
        return scalars[content]
    if kind == "scalars":
        return [scalars[s] for s in content]
    if kind == "float":
        return float(content)
    if kind == "device":
        return torch.device(content)
    if kind == "memory_format":
        return getattr(torch, content if content.startswith("channels") else f"{content}_format")
    return getattr(torch, content)  # a dtype or a layout
