"""A captured step as the functions that Inductor compiles: forward, backward, and the update of each parameter.

Forward and backward are traced together and parted by torch's own partitioner, which has backward compute anew what is cheap, as in
torch.compile. Between them, values are called by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..capture.record import PERSISTENT
from .replay import Graph, NotFused, Replay, traced

aten = torch.ops.aten

Name = tuple[str, Any]  # ("tensor", number) of the captured graph, ("scalar", number), ("node", name) of a value that forward makes for backward


@dataclasses.dataclass
class Segment:
    """A function: what it is given, what it gives, by name. None among `outputs`: nobody wants it."""

    phase: str
    module: torch.fx.GraphModule
    fakes: list[FakeTensor]
    inputs: list[Name]
    outputs: list[Name | None]
    visible: int  # so many outputs at the beginning keep the strides that they have in the captured graph
    layer: str = ""


class Step:
    """A captured graph whose ops are to become functions."""

    def __init__(self, graph: Graph, device: str) -> None:
        self.graph, self.device = graph, torch.device(device)
        self.mode = FakeTensorMode(allow_non_fake_inputs=False)
        self._maker = {t: op for op in graph["ops"] for t in op["outputs"]}

    def persistent(self, tensor: int) -> bool:
        return self._kind(tensor) in PERSISTENT

    def _kind(self, tensor: int) -> str:
        return str(self.graph["storages"][self.storage(tensor)]["kind"])

    def storage(self, tensor: int) -> int:
        return int(self.graph["tensors"][tensor]["storage"])

    def fake(self, tensor: int) -> FakeTensor:
        form = self.graph["tensors"][tensor]
        with self.mode:
            stride = form.get("stride")
            dtype = getattr(torch, form["dtype"])
            if stride is None:
                return torch.empty(form["shape"], dtype=dtype, device=self.device)
            return torch.empty_strided(form["shape"], stride, dtype=dtype, device=self.device)

    def scalar(self) -> FakeTensor:
        with self.mode:
            return torch.empty([], dtype=torch.float64, device=self.device)

    def base_of(self, storage: int) -> int:
        """The tensor that stands for a storage that exists before the step, or that an earlier function gives."""
        return max((n for n, t in enumerate(self.graph["tensors"]) if t["storage"] == storage and n not in self._maker),
                   key=lambda n: _span(self.graph["tensors"][n]))

    def needs(self, ops: Sequence[dict[str, Any]]) -> tuple[list[int], list[int]]:
        """The tensors that ops read and do not make, and the scalars."""
        made: set[int] = set()
        read: dict[int, None] = {}
        scalars: dict[int, None] = {}
        for op in ops:
            read.update(dict.fromkeys(t for t in op["inputs"] if t not in made))
            for value in op["arguments"].values():
                if isinstance(value, dict) and "scalar" in value:
                    scalars[value["scalar"]] = None
                if isinstance(value, dict) and "scalars" in value:
                    scalars.update(dict.fromkeys(value["scalars"]))
            made.update(op["outputs"])
        return list(read), list(scalars)

    def function(self, ops: Sequence[dict[str, Any]], given: Sequence[int], scalars: Sequence[int], wanted: Sequence[int],
                 views: dict[int, int]) -> Callable[..., Any]:
        """`views`: tensors that are seen through others of `given`."""
        graph = self.graph

        def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
            values = dict(zip(given, inputs))
            for tensor, base in views.items():
                form, of = graph["tensors"][tensor], graph["tensors"][base]
                if _form(form) == _form(of):
                    values[tensor] = values[base]
                else:
                    values[tensor] = aten.as_strided(values[base], form["shape"], form.get("stride") or _contiguous(form["shape"]),
                                                     form.get("offset", 0) - of.get("offset", 0))
            numbers: list[Any] = [None] * len(graph["scalars"])
            for number, value in zip(scalars, inputs[len(given):]):
                numbers[number] = value
            replay = Replay(graph, values, numbers)
            for op in ops:
                replay.run(op)
            return [replay.values[t] for t in wanted]

        return run


def _form(tensor: dict[str, Any]) -> Any:
    return tensor["dtype"], tensor["shape"], tensor.get("stride"), tensor.get("offset", 0)


def _span(tensor: dict[str, Any]) -> int:
    stride = tensor.get("stride") or _contiguous(tensor["shape"])
    return 1 + sum((n - 1) * s for n, s in zip(tensor["shape"], stride)) if all(tensor["shape"]) else 0


def _contiguous(shape: Sequence[int]) -> list[int]:
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= max(size, 1)
    return out[::-1]


def segments(step: Step) -> Iterator[Segment]:
    """Forward and backward, in the order in which they run."""
    graph = step.graph
    before = [op for op in graph["ops"] if op["phase"] != "update"]
    yield from _joint(step, before, set(graph["outputs"]) | {t for op in update_ops(graph) for t in op["inputs"]})


def update_ops(graph: Graph) -> list[dict[str, Any]]:
    return [op for op in graph["ops"] if op["phase"] == "update"]


def _joint(step: Step, ops: list[dict[str, Any]], later: set[int]) -> Iterator[Segment]:
    from torch._inductor.compile_fx import partition_fn

    graph = step.graph
    forward = [op for op in ops if op["phase"] == "forward"]
    backward = [op for op in ops if op["phase"] == "backward"]
    seeds = [op for op in backward if op["kind"] == "ones_like" and op["inputs"][0] in graph["outputs"]]
    rest = [op for op in ops if not any(op is seed for seed in seeds)]
    seeded = [t for seed in seeds for t in seed["outputs"]]
    read, scalars = step.needs(rest)
    if scalars:
        raise NotFused("a number that changes from step to step is read before the update")
    outside = [t for t in read if step.persistent(t)]
    bases = list(dict.fromkeys(step.base_of(step.storage(t)) for t in outside))
    views = {t: step.base_of(step.storage(t)) for t in outside if t not in bases}
    tangents = [t for t in bases if _is_tangent(graph, t)]
    primals = [t for t in bases if t not in tangents]
    given = [*primals, *tangents, *seeded]
    made_forward = {t for op in forward for t in op["outputs"]}
    made = {t for op in rest for t in op["outputs"]}
    first = sorted(t for t in later & made_forward if not step.persistent(t))
    second = sorted(t for t in (later & made) - made_forward if not step.persistent(t))
    fakes = [step.fake(t) for t in given]
    module = traced(step.function(rest, given, [], [*first, *second], views), fakes, step.mode)
    for place, node in enumerate(module.graph.find_nodes(op="placeholder")):
        name = f"primals_{place + 1}" if place < len(primals) else f"tangents_{place - len(primals) + 1}"
        node.target, node.name = name, name
    changes = _take_changes(module, given)
    late = {step.storage(t) for op in backward for t in op.get("mutated", ())}
    changed_first = [(t, node) for t, node in changes if step.storage(t) not in late]
    changed_second = [(t, node) for t, node in changes if step.storage(t) in late]
    output = module.graph.output_node()
    results = list(output.args[0])
    output.args = ([*results[:len(first)], *(n for _, n in changed_first), *results[len(first):], *(n for _, n in changed_second)],)
    module.recompile()
    count = len(first) + len(changed_first)
    forward_outputs: list[Name | None] = [("tensor", t) for t in first]
    if not backward:
        _put_changes(step, module, len(first), [t for t, _ in changed_first], given)
        yield Segment("forward", module, fakes, [("tensor", t) for t in given], forward_outputs, len(first))
        return
    with torch._guards.tracing(torch._guards.TracingContext(step.mode)), torch._inductor.virtualized.V.set_fake_mode(step.mode):
        fw, bw = partition_fn(module, fakes, num_fwd_outputs=count, static_lifetime_input_indices=[])
    names = {f"primals_{i + 1}": ("tensor", t) for i, t in enumerate(primals)}
    names |= {f"tangents_{i + 1}": ("tensor", t) for i, t in enumerate([*tangents, *seeded])}
    saved: Sequence[Any] = fw.graph.output_node().args[0][count:]
    changed_storages = {step.storage(t) for t, _ in changed_first}
    for node in bw.graph.find_nodes(op="placeholder"):
        primal = names.get(node.name)
        if primal is not None and step.storage(primal[1]) in changed_storages:
            raise NotFused(f"backward reads {graph['tensors'][primal[1]].get('name', 'a tensor')} as it was before forward changed it")
    # Also where it is an input: what Inductor gives for it may be a copy in another layout.
    saved_names: dict[str, Name] = {node.name: ("node", node.name) for node in saved}
    _put_changes(step, fw, len(first), [t for t, _ in changed_first], given)
    inputs = [names[node.name] for node in fw.graph.find_nodes(op="placeholder")]
    forward_fakes = [node.meta["val"] for node in fw.graph.find_nodes(op="placeholder")]
    yield Segment("forward", fw, forward_fakes, inputs, [*forward_outputs, *saved_names.values()], len(first))
    _put_changes(step, bw, len(second), [t for t, _ in changed_second], given)
    bw_places = bw.graph.find_nodes(op="placeholder")
    inputs = [saved_names.get(node.name) or names[node.name] for node in bw_places]
    yield Segment("backward", bw, [node.meta["val"] for node in bw_places], inputs, [("tensor", t) for t in second], len(second))


def _is_tangent(graph: Graph, tensor: int) -> bool:
    return str(graph["tensors"][tensor].get("name", "")).startswith("tangent.")


def _take_changes(module: torch.fx.GraphModule, given: Sequence[int]) -> list[tuple[int, Any]]:
    """What is copied to inputs at the end, which the graph then does without."""
    places = {node: given[i] for i, node in enumerate(module.graph.find_nodes(op="placeholder")) if i < len(given)}
    out = []
    for node in module.graph.find_nodes(op="call_function", target=aten.copy_.default):
        if node.args[0] not in places:
            raise NotFused("a change in place of something that is no input")
        node.replace_all_uses_with(node.args[1])
        out.append((places[node.args[0]], node.args[1]))
        module.graph.erase_node(node)
    return out


def _put_changes(step: Step, module: torch.fx.GraphModule, at: int, tensors: Sequence[int], given: Sequence[int]) -> None:
    """The outputs from `at` on are copied to inputs, as many as there are `tensors`, and are no outputs any more."""
    if not tensors:
        return
    graph, output = module.graph, module.graph.output_node()
    results = list(output.args[0])
    by_name = {node.name: node for node in graph.find_nodes(op="placeholder")}
    for tensor, value in zip(tensors, results[at:at + len(tensors)]):
        name = f"primals_{list(given).index(tensor) + 1}"
        place = by_name.get(name)
        if place is None:
            with graph.inserting_after(list(by_name.values())[-1]):
                place = by_name[name] = graph.placeholder(name)
            place.meta["val"] = step.fake(tensor)
        with graph.inserting_before(output):
            node = graph.call_function(aten.copy_.default, (place, value))
            node.meta["val"] = place.meta["val"]
    output.args = ([*results[:at], *results[at + len(tensors):]],)
    module.recompile()


def groups(step: Step, ops: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Ops that have to do with each other, in order: those of one parameter, where nothing reaches further. Those of no layer, as clipping, are apart."""
    out: list[list[dict[str, Any]]] = []
    run: list[dict[str, Any]] = []
    for op in ops:
        if run and bool(run[-1].get("layer")) != bool(op.get("layer")):
            out += _connected(step, run)
            run = []
        run.append(op)
    return out + _connected(step, run)


def _connected(step: Step, ops: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    leader = list(range(len(ops)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    writers: dict[int, int] = {}
    for place, op in enumerate(ops):
        for t in (*op["outputs"], *op.get("mutated", ())):
            other = writers.setdefault(step.storage(t), place)
            leader[find(place)] = find(other)
    for place, op in enumerate(ops):
        for t in op["inputs"]:
            if step.storage(t) in writers:
                leader[find(place)] = find(writers[step.storage(t)])
    groups: dict[int, list[dict[str, Any]]] = {}
    for place, op in enumerate(ops):
        groups.setdefault(find(place), []).append(op)
    return list(groups.values())


def update_segment(step: Step, ops: list[dict[str, Any]]) -> Segment:
    """One of `groups`."""
    read, scalars = step.needs(ops)
    persistent = [t for t in read if step.persistent(t)]
    bases = list(dict.fromkeys(step.base_of(step.storage(t)) for t in persistent))
    views = {t: step.base_of(step.storage(t)) for t in persistent if t not in bases}
    given = [*bases, *(t for t in read if t not in persistent)]
    changed = {step.storage(t) for op in ops for t in op.get("mutated", ())}
    for storage in changed:
        if sum(step.storage(t) == storage for t in given) > 1:
            raise NotFused("the update changes what it sees in two ways")
    graph = step.graph
    later: set[int] = set(graph["outputs"])
    mine = {id(op) for op in ops}
    for op in graph["ops"]:
        if op["phase"] == "update" and id(op) not in mine:
            later.update(op["inputs"])
    wanted = sorted(t for op in ops for t in op["outputs"] if t in later and not step.persistent(t) and step.storage(t) not in {step.storage(g) for g in given})
    fakes = [*(step.fake(t) for t in given), *(step.scalar() for _ in scalars)]
    module = traced(step.function(ops, given, scalars, wanted, views), fakes, step.mode)
    inputs: list[Name] = [*(("tensor", t) for t in given), *(("scalar", s) for s in scalars)]
    return Segment("update", module, fakes, inputs, [("tensor", t) for t in wanted], len(wanted), ops[0].get("layer", ""))
