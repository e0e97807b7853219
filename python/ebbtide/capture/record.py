"""Records ATen calls on fake tensors as the storages, tensors and ops of a graph."""

import weakref

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ..errors import CaptureError
from .values import Scalar, bound_arguments, encode, name_of

aten = torch.ops.aten

PERSISTENT = {"parameter", "buffer", "optimizer_state", "input"}  # kinds of storages that exist before the step
# Another handle on the same tensor, made by autograd's own bookkeeping; nothing runs.
_SAME_TENSOR = {aten.detach.default, aten.alias.default, aten.detach_.default, aten.lift.default}
# Namespaces whose ops are known to be functions of their arguments and the random state. What any other op does beside its result, what it keeps
# and whether it draws is not known: it is run once per step, and never to be measured (native/kernels/kernels.cc).
_KNOWN = {"aten", "prims", "torchvision"}
# Written in training although the schema does not say so.
_RUNNING_STATISTICS = {
    name: ("running_mean", "running_var")
    for name in ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
}


class Ref:
    """Stands for a tensor in the arguments of a call that is kept."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


class Recorder:
    """The graph so far. Storages are told apart by the address of their C++ object, tensors by their Python object."""

    def __init__(self):
        self.storages, self.tensors, self.ops, self.scalars = [], [], [], []
        self.devices = []  # per tensor
        self.calls = []  # per op: function, args and kwargs with Refs for tensors
        self.constants = {}  # storage -> tensor that holds its value
        self.fresh = set()  # storages of those constants that the model's code makes anew each time
        self.writers = {}  # storage -> places of the ops that write it
        self.phase = "forward"
        self.layer = lambda: ""
        self._storage_numbers, self._kept_storages = {}, []
        self._tensor_numbers = {}  # id of the object -> (weak reference, number)

    # -- what exists before the step ---------------------------------------------------------------------------------

    def declare(self, tensor, kind, name):
        """A tensor that is there before the step. Returns its storage."""
        storage = self._storage(tensor, kind, name)
        self._bind(tensor, self._tensor(tensor, storage, name))
        return storage

    def declare_constant(self, fake, real, fresh=False):
        """A tensor that the model's code made of numbers (`fresh`), or keeps outside of its buffers."""
        storage = self.declare(fake, "buffer", f"constant.{len(self.constants)}")
        self.constants[storage] = real
        if fresh:
            self.fresh.add(storage)

    def scalar(self, name, value):
        """A host number that is an input of the graph."""
        self.scalars.append({"name": name, "value": float(value)})
        return Scalar(len(self.scalars) - 1, value)

    def exists_before(self, storage):
        return self.storages[storage]["kind"] in PERSISTENT

    # -- ops ---------------------------------------------------------------------------------------------------------

    def record(self, function, args, kwargs, result, values=None):
        """Appends one call. `values`: (args, kwargs) with the graph's scalars in place, where it has any."""
        if function in _SAME_TENSOR:
            self._bind(result, self.tensor_number(args[0]))
        elif torch.Tag.inplace_view in function.tags:
            self._append(_without_underscore(function), args, kwargs, result, values)
            self._bind(args[0], self.ops[-1]["outputs"][0])
        else:
            self._append(function, args, kwargs, result, values)

    def record_in_place(self, function, args, kwargs, result):
        """Appends the in-place form of a call whose fake result has a storage of its own: first argument and result
        become one storage."""
        self._storage_numbers[result.untyped_storage()._cdata] = self.storage_number(args[0])
        self._kept_storages.append(result.untyped_storage())
        self._append(_with_underscore(function), args, kwargs, result, None)

    def _append(self, function, args, kwargs, result, values):
        schema = function._schema
        inputs, mutated, arguments = [], [], {}
        bound = list(bound_arguments(schema, *(values or (args, kwargs))))
        training = any(argument.name == "training" and value is True for argument, value in bound)
        for argument, value in bound:
            arguments[argument.name] = encode(value, argument, schema, self.tensor_number)
            numbers = [self.tensor_number(t) for t in _leaves(value) if isinstance(t, torch.Tensor)]
            inputs += numbers
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            if is_written or (training and argument.name in _RUNNING_STATISTICS.get(schema.name, ())):
                mutated += numbers
        kept = map_tensors(lambda t: Ref(self.tensor_number(t)), (args, kwargs))
        op = {"kind": _kind(function), "phase": self.phase}
        layer = self.layer()
        if layer:
            op["layer"] = layer
        op["inputs"] = list(dict.fromkeys(inputs))
        op["outputs"] = [
            self._bind(tensor, self._tensor(tensor, self._storage(tensor)))
            for tensor in _leaves(_asked_for(result, arguments)) if isinstance(tensor, torch.Tensor)
        ]
        if mutated:
            op["mutated"] = list(dict.fromkeys(mutated))
        op["schema"] = f"{schema.name}.{schema.overload_name or 'default'}"
        op["arguments"] = arguments
        flops = _flops(function, args, kwargs, result)
        if flops:
            op["flops"] = flops
        if function.namespace not in _KNOWN:
            op["random"], op["deterministic"] = True, False
        elif _is_random(function, arguments):
            op["random"] = True
            if self.phase == "backward":
                raise CaptureError(
                    f"layer {layer or '(none)'}: {op['kind']} draws random numbers in the backward pass, as activation "
                    "checkpointing of dropout does; expected random ops in the forward pass only"
                )
        for number in op["outputs"] + mutated:
            self.writers.setdefault(self.tensors[number]["storage"], []).append(len(self.ops))
        self.ops.append(op)
        self.calls.append((function, *kept))

    # -- storages and tensors ----------------------------------------------------------------------------------------

    def known(self, tensor):
        """The number of a tensor, or None."""
        entry = self._tensor_numbers.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def forget(self, tensor):
        """Of a tensor that is about to become a view of other memory: where it is used, it is a view that no recorded call made."""
        self._tensor_numbers.pop(id(tensor), None)

    def tensor_number(self, tensor):
        """The number of a tensor that a call is given."""
        number = self.known(tensor)
        if number is None:
            number = self._view(tensor)
        return number

    def knows_storage(self, tensor):
        return tensor.untyped_storage()._cdata in self._storage_numbers

    def gives(self, tensor):
        """Whether a tensor is of memory that the step makes, and dense."""
        return tensor.layout is torch.strided and self.knows_storage(tensor) and not self.exists_before(self.storage_number(tensor))

    def storage_number(self, tensor):
        return self._storage_numbers[tensor.untyped_storage()._cdata]

    def _view(self, tensor):
        """A view that no recorded call made becomes an as_strided of a tensor that is known."""
        storage = self._storage_numbers.get(tensor.untyped_storage()._cdata)
        bases = [n for n, t in enumerate(self.tensors) if t["storage"] == storage and t["dtype"] == name_of(tensor.dtype)]
        if not bases:
            raise CaptureError("a tensor was made out of sight of the capture; expected every one to come from an ATen call")
        arguments = {
            "self": {"tensor": bases[0]}, "size": list(tensor.shape), "stride": list(tensor.stride()),
            "storage_offset": tensor.storage_offset(),
        }
        number = self._bind(tensor, self._tensor(tensor, storage))
        self.ops.append({
            "kind": "as_strided", "phase": self.phase, "inputs": [bases[0]], "outputs": [number],
            "schema": "aten::as_strided.default", "arguments": arguments,
        })
        self.calls.append((aten.as_strided.default, [Ref(bases[0]), *list(arguments.values())[1:]], {}))
        return number

    def _storage(self, tensor, kind="temporary", name=""):
        if tensor.layout != torch.strided:
            raise CaptureError(
                f"layer {self.layer() or '(none)'}: a {name_of(tensor.layout)} tensor; expected dense ones (sparse=False of an embedding). "
                "`ebbtide dryrun` runs such a program as it is")
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storage_numbers:
            self._storage_numbers[storage._cdata] = len(self.storages)
            self._kept_storages.append(storage)
            self.storages.append({"kind": kind, "bytes": storage.nbytes()} | ({"name": name} if name else {}))
        return self._storage_numbers[storage._cdata]

    def _tensor(self, tensor, storage, name=""):
        dtype = torch.int64 if tensor.dtype == torch.uint64 else tensor.dtype  # a seed of flash attention: as many bytes
        entry = {"storage": storage, "dtype": name_of(dtype), "shape": list(tensor.shape)}
        if tensor.stride() != _contiguous(tensor.shape):
            entry["stride"] = list(tensor.stride())
        if tensor.storage_offset():
            entry["offset"] = tensor.storage_offset()
        if name:
            entry["name"] = name
        self.tensors.append(entry)
        self.devices.append(tensor.device)
        return len(self.tensors) - 1

    def _bind(self, tensor, number):
        key, numbers = id(tensor), self._tensor_numbers
        numbers[key] = (weakref.ref(tensor, lambda _: numbers.pop(key, None)), number)
        return number


def map_tensors(function, value):
    """`value`, with `function` of every tensor in its lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([map_tensors(function, v) for v in value])
    if isinstance(value, dict):
        return {k: map_tensors(function, v) for k, v in value.items()}
    return value


def _asked_for(result, arguments):
    """Kernels leave out the gradients that their mask does not ask for; torch's rules for fakes may make them."""
    mask = arguments.get("output_mask")
    if not isinstance(mask, list) or not isinstance(result, tuple) or len(mask) != len(result):
        return result
    return [tensor for tensor, wanted in zip(result, mask) if wanted]


def _without_underscore(function):
    """unsqueeze for unsqueeze_: in place it changes the handle, not the bytes."""
    name = function._schema.name.split("::")[1]
    packet = getattr(aten, name.rstrip("_"), None)
    if name not in ("resize_", "resize_as_", "set_", "rename_") and packet is not None:
        takes = [(a.name, str(a.type)) for a in function._schema.arguments]
        for overload in packet.overloads():  # transpose_.default is transpose.int
            plain = getattr(packet, overload)
            if [(a.name, str(a.type)) for a in plain._schema.arguments] == takes:
                return plain
    raise CaptureError(f"{function._schema.name} cannot be captured: it gives a tensor other memory in place")


def _with_underscore(function):
    name, overload = function._schema.name.split("::")[1], function._schema.overload_name or "default"
    return getattr(getattr(aten, name + "_"), overload)


def _contiguous(shape):
    """The strides that the file leaves out."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _leaves(value):
    return tree_leaves(value) if isinstance(value, (list, tuple, dict)) else [value]


def _kind(function):
    namespace, name = function._schema.name.split("::")
    return name if namespace == "aten" else f"{namespace}::{name}"


def _flops(function, args, kwargs, result):
    formula = flop_registry.get(function.overloadpacket)
    return int(formula(*args, **kwargs, out_val=result)) if formula is not None else 0


def _is_random(function, arguments):
    """Attention carries the tag although it draws only where it drops, and its backward repeats a draw from its seed."""
    tagged = torch.Tag.nondeterministic_seeded in function.tags
    return tagged and arguments.get("dropout_p") != 0.0 and "philox_seed" not in arguments
