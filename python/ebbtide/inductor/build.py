"""The ops of a graph, of Inductor's programs: a kernel or a call of torch's is an op, buffers are storages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from ..capture.file import _name_kinds
from ..capture.record import _KNOWN, PERSISTENT, _asked_for, _is_random, _kind
from ..capture.values import bound_arguments, encode, name_of
from .library import CHANGED, GIVEN, MADE, NUMBER, Called, Kernel, short
from .program import Memory, Number, Value
from .replay import Graph, NotFused
from .segments import Name, Step, _contiguous, _form

aten = torch.ops.aten


class Fused:
    """The graph that is being made. Storages that exist before the step come first, as they were."""

    def __init__(self, step: Step) -> None:
        self._step, old = step, step.graph
        self.storages: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.storage_numbers: dict[int, int] = {}  # of the captured graph -> of this one
        self.tensor_numbers: dict[int, int] = {}
        self._memories: dict[int, Memory] = {}
        self._numbers: dict[Any, int] = {}  # (storage, form) -> tensor
        self._values: dict[Name, Value | Number] = {("scalar", i): Number(i) for i in range(len(old["scalars"]))}
        self._kernels: dict[str, Kernel] = {}
        self.called: dict[str, Called] = {}
        self._seeds: set[int] = set()
        self.phase, self.layer = "forward", ""
        made = {t for op in old["ops"] for t in op["outputs"]}
        for number, storage in enumerate(old["storages"]):
            if storage["kind"] in PERSISTENT:
                self.storage_numbers[number] = len(self.storages)
                self.storages.append(dict(storage))
        for number, tensor in enumerate(old["tensors"]):
            if number not in made and tensor["storage"] in self.storage_numbers:
                storage = self.storage_numbers[tensor["storage"]]
                self.tensor_numbers[number] = len(self.tensors)
                self.tensors.append(tensor | {"storage": storage})
                memory = self._memories.setdefault(storage, Memory(self.storages[storage]["bytes"], storage))
                value = _value_of(tensor, memory)
                self._values["tensor", number] = value
                self._numbers.setdefault((storage, *_form_of(value)), len(self.tensors) - 1)

    # -- values by name ------------------------------------------------------------------------------------------------

    def value(self, name: Name) -> Value | Number:
        if name not in self._values and name[0] == "tensor" and name[1] in self._seeds:
            form = self._step.graph["tensors"][name[1]]
            value = Value(Memory(torch.empty(form["shape"], dtype=getattr(torch, form["dtype"]), device="meta").nbytes), getattr(torch, form["dtype"]),
                          tuple(form["shape"]), tuple(_contiguous(form["shape"])))
            number, self.phase = self._born(value), "backward"
            self._append({"kind": "ones", "inputs": [], "outputs": [number], "schema": "aten::ones.default", "arguments": {
                "size": list(form["shape"]), "dtype": {"dtype": form["dtype"]}, "layout": None,
                "device": {"device": str(self._step.device)}, "pin_memory": None}})
            self._values[name] = value
        if name[0] == "scalar" and self._step.device.type != "cpu" and isinstance(self._values[name], Number):
            self._values[name] = self._on_device(name[1])
        if name not in self._values:
            raise NotFused(f"{name[0]} {name[1]} is not known where it is wanted")
        return self._values[name]

    def used_up(self, names: Sequence[Name]) -> list[int]:
        """The places of what forward has made for backward alone."""
        held = {id(value.memory) for name, value in self._values.items() if name[0] == "tensor" and isinstance(value, Value)}
        values = [self.value(name) for name in names]
        memories = [id(value.memory) for value in values if isinstance(value, Value)]
        return [place for place, (name, value) in enumerate(zip(names, values)) if name[0] == "node" and isinstance(value, Value)
                and id(value.memory) not in held and memories.count(id(value.memory)) == 1]

    def _on_device(self, scalar: int) -> Value:
        """A scalar of the graph where kernels of a GPU read it: copied there by an op of its own, once a step."""
        value = Value(Memory(8), torch.float64, (), ())
        number, self.phase = self._born(value), "update"
        self._append({"kind": "full", "inputs": [], "outputs": [number], "schema": "aten::full.default", "arguments": {
            "size": [], "fill_value": {"scalar": scalar}, "dtype": {"dtype": "float64"}, "layout": None, "device": {"device": str(self._step.device)},
            "pin_memory": None}})
        return value

    def give(self, name: Name | None, value: Any) -> None:
        if name is not None and isinstance(value, Value):
            self._values[name] = value

    def seed(self, tensor: int) -> None:
        """The gradient of the loss, which is 1: an op of its own, where it is first wanted."""
        self._seeds.add(tensor)

    def use(self, kernels: dict[str, Kernel], phase: str, layer: str) -> None:
        """For the program that is read next."""
        self._kernels, self.phase, self.layer = kernels, phase, layer

    # -- the lines of a program ----------------------------------------------------------------------------------------

    def kernel(self, name: str, args: list[Any]) -> None:
        kernel = self._kernels.get(name)
        if kernel is None:
            raise NotFused(f"Inductor's program calls {name}")
        if len(args) != len(kernel.writes):
            raise NotFused(f"kernel {name} has {len(args)} arguments; expected {len(kernel.writes)}")
        given: list[Value] = []  # one for each storage, and so are the others
        changed: list[Value] = []
        made: list[Value] = []
        numbers: list[int] = []
        plain: list[Any] = []  # for Triton
        written = {id(arg.memory) for arg, writes in zip(args, kernel.writes) if writes and isinstance(arg, Value)}
        addresses = []
        for arg in args:
            if kernel.is_triton:
                plain.append((name_of(arg.dtype), arg.shape, arg.stride, arg.offset) if isinstance(arg, Value) else arg)
                if not isinstance(arg, Value):
                    addresses.append((NUMBER, 0, 0))
                    continue
                if arg.offset * arg.dtype.itemsize % 16:
                    raise NotFused(f"kernel {name} is given memory at an address that is no multiple of 16")
            if isinstance(arg, Number):
                if arg.index not in numbers:
                    numbers.append(arg.index)
                addresses.append((NUMBER, numbers.index(arg.index), 0))
                continue
            where, kind = (given, GIVEN)
            if id(arg.memory) in written:
                where, kind = (made, MADE) if arg.memory.number is None else (changed, CHANGED)
            elif arg.memory.number is None:
                raise NotFused(f"kernel {name} reads what nothing has written")
            place = next((i for i, other in enumerate(where) if other.memory is arg.memory), len(where))
            if place == len(where):
                where.append(arg)
            addresses.append((kind, place, arg.offset * arg.dtype.itemsize))
        forms = [_whole(value) for value in made]
        called = Called(kernel, tuple(addresses), tuple((name_of(v.dtype), v.shape, v.stride) for v in forms), tuple(plain))
        if called.name not in self.called:
            self.called[called.name] = called
        given_numbers, changed_numbers = [self._any(arg) for arg in given], [self._any(arg) for arg in changed]
        more = {} if kernel.is_triton else {"numbers": {"scalars": numbers} if numbers else []}
        unsure = {"deterministic": False, "random": True} if "tl.atomic_" in kernel.source else {}  # sums in the order in which threads come
        self._append(unsure | {
            "kind": short(name), "inputs": [*given_numbers, *changed_numbers], "outputs": [self._born(v) for v in forms], "mutated": changed_numbers,
            "schema": "ebbtide::triton.default" if kernel.is_triton else "ebbtide::fused.default",
            "arguments": {"kernel": called.name, "given": {"tensors": given_numbers}, "changed": {"tensors": changed_numbers}} | more})

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        into = kwargs.pop("out", None)
        function, args = _functional(function, args, kwargs, into is not None)
        if into is not None:
            overload = _overload(function, args, kwargs)
            if into.memory.number is None and _is_plain(into):
                if "dtype" in {a.name for a in overload._schema.arguments} and "dtype" not in kwargs:
                    kwargs = kwargs | {"dtype": into.dtype}
                [made] = self._operator(overload, args, kwargs)
                if (made.dtype, made.shape, made.stride) != (into.dtype, into.shape, into.stride):
                    raise NotFused(f"{overload} makes {made.dtype} {made.shape}; Inductor expects {into.dtype} {into.shape}")
                into.memory.number = made.memory.number
                return None
            if into.memory.number is None:
                self._empty(into)
            self._operator(_out_form(overload), args, kwargs | {"out": into})
            return None
        results = self._operator(_overload(function, args, kwargs), args, kwargs)
        return results[0] if len(results) == 1 and not isinstance(results, tuple) else list(results)

    def _empty(self, value: Value) -> None:
        whole = _whole(value)
        self._append({"kind": "empty_strided", "inputs": [], "outputs": [self._born(whole)], "schema": "aten::empty_strided.default", "arguments": {
            "size": list(whole.shape), "stride": list(whole.stride), "dtype": {"dtype": name_of(whole.dtype)}, "layout": None,
            "device": {"device": str(self._step.device)}, "pin_memory": None}})

    def _operator(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Value] | tuple[Value, ...]:
        """An op of torch's. Its results; a tuple where it gives one."""
        schema = function._schema
        fakes: dict[int, Value] = {}

        def fake(value: Value) -> torch.Tensor:
            with self._step.mode:
                made = torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=self._step.device)
            fakes[made.untyped_storage()._cdata] = value
            keep.append(made)
            return made

        keep: list[torch.Tensor] = []
        fake_args, fake_kwargs = tree_map_only(Value, fake, (args, kwargs))
        with self._step.mode, torch.no_grad():
            result = function(*fake_args, **fake_kwargs)
        arguments: dict[str, Any] = {}
        inputs: list[int] = []
        mutated: list[int] = []
        for argument, value in bound_arguments(schema, args, kwargs):
            values = [v for v in tree_leaves(value) if isinstance(v, Value)] if isinstance(value, (list, tuple, Value)) else []
            numbers = [self._tensor(v) for v in values]
            inputs += numbers
            if argument.alias_info is not None and argument.alias_info.is_write:
                mutated += numbers
            if isinstance(value, Value):
                arguments[argument.name] = {"tensor": numbers[0]}
            elif values:
                placed = iter(numbers)
                arguments[argument.name] = {"tensors": [next(placed) if isinstance(v, Value) else None for v in value]}
            else:
                arguments[argument.name] = encode(value, argument, schema, lambda _: -1)
        outputs, given_back = [], []
        leaves = [t for t in tree_leaves(_asked_for(result, arguments)) if isinstance(t, torch.Tensor)]
        for tensor in leaves:
            old = fakes.get(tensor.untyped_storage()._cdata)
            if old is None:
                value = Value(Memory(tensor.untyped_storage().nbytes()), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
                outputs.append(self._born(value))
            elif mutated:
                value = old
                outputs.append(self._add_tensor(value))
            else:
                raise NotFused(f"{function} gives a view of what it is given")
            given_back.append(value)
        op = {"kind": _kind(function), "inputs": list(dict.fromkeys(inputs)), "outputs": outputs, "mutated": list(dict.fromkeys(mutated)),
              "schema": f"{schema.name}.{schema.overload_name or 'default'}", "arguments": arguments}
        formula = flop_registry.get(function.overloadpacket)
        whole = {a.name: v for a, v in bound_arguments(schema, fake_args, fake_kwargs)}
        positional = [whole[a.name] for a in schema.arguments if not a.kwarg_only]
        if formula is not None and (flops := int(formula(*positional, out_val=result))):
            op["flops"] = flops
        if function.namespace not in _KNOWN:
            op["random"], op["deterministic"] = True, False
        elif _is_random(function, arguments):
            op["random"] = True
            if self.phase == "backward":
                raise NotFused(f"{function} draws random numbers in the backward pass")
        self._append(op)
        if isinstance(result, torch.Tensor):
            return given_back
        places = iter(given_back)
        wanted = {id(t) for t in leaves}
        return tuple(next(places) if isinstance(t, torch.Tensor) and id(t) in wanted else None for t in result)  # type: ignore[misc]

    def as_captured(self, ops: Sequence[dict[str, Any]]) -> None:
        """Ops of the captured graph that stay as they are."""
        old = self._step.graph
        for op in ops:
            numbers: dict[int, int] = {}
            for t in op["inputs"]:
                value = self.value(("tensor", t))
                assert isinstance(value, Value)
                numbers[t] = self._tensor(value)
            known = {self._step.storage(t): self.value(("tensor", t)).memory for t in op["inputs"]}  # type: ignore[union-attr]
            for t in op["outputs"]:
                storage = self._step.storage(t)
                memory = known.setdefault(storage, Memory(old["storages"][storage]["bytes"]))
                value = self._captured_value(op, t, memory)
                numbers[t] = self._born(value) if memory.number is None else self._add_tensor(value)
                self._values["tensor", t] = value
            arguments = {name: _renumbered(value, numbers) for name, value in op["arguments"].items()}
            fields = {field: [numbers[t] for t in op[field]] for field in ("inputs", "outputs", "mutated") if field in op}
            self.ops.append(op | fields | {"arguments": arguments})

    def _captured_value(self, op: dict[str, Any], output: int, memory: Memory) -> Value:
        """A result of an op as captured. A view of something that Inductor has in another form would be of other elements."""
        tensors = self._step.graph["tensors"]
        for t in op["inputs"]:
            value = self.value(("tensor", t))
            if not isinstance(value, Value) or value.memory is not memory:
                continue
            if _form(tensors[t]) == _form(tensors[output]):
                return value
            if _form_of(value) != _form_of(_value_of(tensors[t], memory)):
                raise NotFused(f"{op['schema']} is given what Inductor has in another form")
        return _value_of(tensors[output], memory)

    # -- storages and tensors ------------------------------------------------------------------------------------------

    def _append(self, op: dict[str, Any]) -> None:
        placed = {"kind": op["kind"], "phase": self.phase} | ({"layer": self.layer} if self.layer else {})
        self.ops.append(placed | {key: value for key, value in op.items() if key != "kind" and not (key == "mutated" and not value)})

    def _born(self, value: Value) -> int:
        value.memory.number = len(self.storages)
        self.storages.append({"kind": "temporary", "bytes": value.memory.bytes})
        return self._add_tensor(value)

    def _add_tensor(self, value: Value) -> int:
        assert value.memory.number is not None
        entry: dict[str, Any] = {"storage": value.memory.number, "dtype": name_of(value.dtype), "shape": list(value.shape)}
        if list(value.stride) != _contiguous(value.shape):
            entry["stride"] = list(value.stride)
        if value.offset:
            entry["offset"] = value.offset
        self.tensors.append(entry)
        self._numbers.setdefault((value.memory.number, *_form_of(value)), len(self.tensors) - 1)
        return len(self.tensors) - 1

    def _any(self, value: Value) -> int:
        """A tensor of the same storage: kernels are given addresses alone."""
        return next(n for n, t in enumerate(self.tensors) if t["storage"] == value.memory.number)

    def _tensor(self, value: Value) -> int:
        """The number of a tensor that an op reads; a view is made of another of the storage."""
        memory = value.memory
        if memory.number is None:
            raise NotFused("an op reads what nothing has written")
        known = self._numbers.get((memory.number, *_form_of(value)))
        if known is not None:
            return known
        if self.storages[memory.number]["kind"] in PERSISTENT:
            return self._add_tensor(value)
        base = next(n for n, t in enumerate(self.tensors) if t["storage"] == memory.number)
        if self.tensors[base]["dtype"] != name_of(value.dtype):
            raise NotFused("a view of another type")
        number = self._add_tensor(value)
        self._append({"kind": "as_strided", "inputs": [base], "outputs": [number], "schema": "aten::as_strided.default", "arguments": {
            "self": {"tensor": base}, "size": list(value.shape), "stride": list(value.stride), "storage_offset": value.offset}})
        return number

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> Graph:
        """The graph file's object."""
        old = self._step.graph
        outputs = []
        for number in old["outputs"]:
            value = self.value(("tensor", number))
            assert isinstance(value, Value)
            self.tensor_numbers[number] = self._tensor(value)
            outputs.append(self.tensor_numbers[number])
        gradients = {}
        for name, value in self._values.items():
            if name[0] != "tensor" or not isinstance(value, Value):
                continue
            storage = old["storages"][self._step.storage(name[1])]
            if storage["kind"] == "gradient" and value.memory.number is not None and self.storages[value.memory.number]["kind"] not in PERSISTENT:
                gradients[value.memory.number] = storage.get("name", "")
        held = {self.tensors[t]["storage"] for t in outputs}
        _name_kinds(self.ops, self.tensors, self.storages, gradients, held | gradients.keys())
        return {key: value for key, value in old.items() if key not in ("storages", "tensors", "ops", "outputs")} | {
            "storages": self.storages, "tensors": self.tensors, "ops": self.ops, "outputs": list(dict.fromkeys(outputs))}


def _value_of(tensor: dict[str, Any], memory: Memory) -> Value:
    return Value(memory, getattr(torch, tensor["dtype"]), tuple(tensor["shape"]), tuple(tensor.get("stride") or _contiguous(tensor["shape"])),
                 tensor.get("offset", 0))


def _renumbered(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, dict) and "tensor" in value:
        return {"tensor": numbers[value["tensor"]]}
    if isinstance(value, dict) and "tensors" in value:
        return {"tensors": [None if t is None else numbers[t] for t in value["tensors"]]}
    return value


def _form_of(value: Value) -> tuple[Any, ...]:
    return name_of(value.dtype), value.shape, value.stride, value.offset


def _whole(value: Value) -> Value:
    """All of the memory: what an op makes that fills a part of it."""
    if value.offset == 0 and _reach(value) * value.dtype.itemsize == value.memory.bytes:
        return value
    count = value.memory.bytes // value.dtype.itemsize
    return Value(value.memory, value.dtype, (count,), (1,))


def _reach(value: Value) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride)) if all(value.shape) else 0


def _is_plain(value: Value) -> bool:
    return list(value.stride) == _contiguous(value.shape) and value.offset == 0 and _reach(value) * value.dtype.itemsize == value.memory.bytes


def _functional(function: Any, args: list[Any], kwargs: dict[str, Any], has_out: bool) -> tuple[Any, list[Any]]:
    """The operator that a line means: randint.low of randint.low_out, addmm of bias_addmm."""
    if isinstance(function, torch._ops.OpOverload) and has_out:
        name = function._schema.overload_name
        plain = "default" if name == "out" else name.removesuffix("_out")
        return getattr(function.overloadpacket, plain), args
    return function, args


def _overload(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(function, torch._ops.OpOverload):
        return function
    names = function.overloads()
    if "default" in names:
        return function.default
    fitting = [getattr(function, n) for n in names if "out" not in n]
    if len(fitting) != 1:
        raise NotFused(f"Inductor's program calls {function} and does not say which of {len(fitting)}")
    return fitting[0]


def _out_form(overload: Any) -> Any:
    name = overload._schema.overload_name
    found = getattr(overload.overloadpacket, f"{name}_out" if name else "out", None)
    if found is None:
        raise NotFused(f"{overload} has no form that writes to memory it is given")
    return found


