"""Records ATen calls on fake tensors as the storages, tensors and ops of a graph."""

import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from .capture_errors import CaptureError
from .capture_values import Scalar, bound_arguments, encode, name_of

aten = torch.ops.aten

# Another handle on the same tensor, made by autograd's own bookkeeping; nothing runs.
_SAME_TENSOR = {aten.detach.default, aten.alias.default, aten.detach_.default, aten.lift.default}
# Arguments that are written although the schema does not say so: only when `training` is set.
_RUNNING_STATISTICS = ("running_mean", "running_var")
_WRITES_RUNNING_STATISTICS = {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"}
_LARGEST_CONSTANT_KEPT = 1024  # elements of a constant whose values go into the file


class Recorder:
    """The graph so far. Storages are told apart by the address of their C++ object, tensors by their Python object."""

    def __init__(self):
        self.storages, self.tensors, self.ops, self.scalars = [], [], [], []
        self.constants = {}  # storage -> tensor that holds its value
        self.phase = "forward"
        self.layer = lambda: ""
        self._storage_numbers, self._kept_storages = {}, []
        self._tensor_numbers = {}  # id of the object -> (weak reference, number)

    # -- what exists before the step ---------------------------------------------------------------------------------

    def declare(self, tensor, kind, name):
        """A tensor that is there before the step."""
        storage = self._storage(tensor, kind, name)
        return self._bind(tensor, self._tensor(tensor, storage, name))

    def declare_constant(self, fake, real):
        name = f"constant.{len(self.constants)}"
        number = self.declare(fake, "buffer", name)
        self.constants[self.tensors[number]["storage"]] = real

    def scalar(self, name, value):
        self.scalars.append({"name": name, "value": float(value)})
        return Scalar(len(self.scalars) - 1, value)

    # -- ops ---------------------------------------------------------------------------------------------------------

    def record(self, function, args, kwargs, result, values=None):
        """Appends one call. `values`: the arguments with the graph's scalars in place, where it has any."""
        if function in _SAME_TENSOR:
            self._bind(result, self.tensor_number(args[0]))
            return
        if torch.Tag.inplace_view in function.tags:
            function = self._without_underscore(function)
            self._append(function, args, kwargs, result, values, layout_only=True)
            self._bind(args[0], self.ops[-1]["outputs"][0])
        else:
            self._append(function, args, kwargs, result, values)

    def _append(self, function, args, kwargs, result, values, layout_only=False):
        schema = function._schema
        inputs, mutated, arguments, written = [], [], {}, []
        given_args, given_kwargs = values if values is not None else (args, kwargs)
        for argument, value in bound_arguments(schema, given_args, given_kwargs):
            arguments[argument.name] = encode(value, argument, schema, self.tensor_number)
            tensors = [t for t in _leaves(value) if isinstance(t, torch.Tensor)]
            numbers = [self.tensor_number(t) for t in tensors]
            inputs += numbers
            if self._is_written(argument, schema, given_args, given_kwargs):
                mutated += numbers
                written += tensors
        op = {"kind": _kind(function), "phase": self.phase}
        layer = self.layer()
        if layer:
            op["layer"] = layer
        op["inputs"] = list(dict.fromkeys(inputs))
        op["outputs"] = self._outputs(result, op["inputs"], written, layout_only)
        if mutated:
            op["mutated"] = list(dict.fromkeys(mutated))
        op["schema"] = f"{schema.name}.{schema.overload_name or 'default'}"
        op["arguments"] = arguments
        flops = _flops(function, args, kwargs, result)
        if flops:
            op["flops"] = flops
        if _is_random(function, arguments):
            op["random"] = True
        self.ops.append(op)

    def _outputs(self, result, inputs, written, layout_only):
        outputs = []
        for tensor in _leaves(result):
            if not isinstance(tensor, torch.Tensor):
                continue
            changed = next((w for w in written if w is tensor), None)
            if changed is None and not layout_only and self.known(tensor) in inputs:
                continue  # handed back as it came
            number = self._bind(tensor, self._tensor(tensor, self._storage(tensor)))
            outputs.append(number)
        return outputs

    @staticmethod
    def _is_written(argument, schema, args, kwargs):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return True
        if schema.name in _WRITES_RUNNING_STATISTICS and argument.name in _RUNNING_STATISTICS:
            return any(a.name == "training" and value for a, value in bound_arguments(schema, args, kwargs))
        return False

    @staticmethod
    def _without_underscore(function):
        """unsqueeze for unsqueeze_: in place it changes the handle, not the bytes."""
        name, overload = function._schema.name.split("::")[1], function._schema.overload_name or "default"
        packet = getattr(aten, name.rstrip("_"), None)
        if name in ("resize_", "set_", "resize_as_", "rename_") or packet is None or overload not in packet.overloads():
            raise CaptureError(f"{function._schema.name} cannot be captured: it gives a tensor another storage in place")
        return getattr(packet, overload)

    # -- storages and tensors ----------------------------------------------------------------------------------------

    def tensor_number(self, tensor):
        number = self.known(tensor)
        if number is not None:
            return number
        key = tensor.untyped_storage()._cdata
        if key not in self._storage_numbers:
            raise CaptureError("a tensor was made out of sight of the capture; expected all of them to come from ATen calls")
        return self._view_of_storage(tensor, self._storage_numbers[key])

    def storage_number(self, tensor):
        return self._storage_numbers[tensor.untyped_storage()._cdata]

    def _view_of_storage(self, tensor, storage):
        """A view that no recorded call made becomes an as_strided of a tensor that is known."""
        base = next(n for n, t in enumerate(self.tensors) if t["storage"] == storage and t["dtype"] == name_of(tensor.dtype))
        number = self._bind(tensor, self._tensor(tensor, storage))
        self.ops.append({
            "kind": "as_strided", "phase": self.phase, "inputs": [base], "outputs": [number],
            "schema": "aten::as_strided.default",
            "arguments": {"self": {"tensor": base}, "size": list(tensor.shape), "stride": list(tensor.stride()),
                          "storage_offset": tensor.storage_offset()},
        })
        return number

    def _storage(self, tensor, kind="temporary", name=""):
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storage_numbers:
            self._storage_numbers[storage._cdata] = len(self.storages)
            self._kept_storages.append(storage)
            self.storages.append({"kind": kind, "bytes": storage.nbytes()} | ({"name": name} if name else {}))
        return self._storage_numbers[storage._cdata]

    def _tensor(self, tensor, storage, name=""):
        entry = {"storage": storage, "dtype": name_of(tensor.dtype), "shape": list(tensor.shape)}
        if tensor.stride() != _contiguous(tensor.shape):
            entry["stride"] = list(tensor.stride())
        if tensor.storage_offset():
            entry["offset"] = tensor.storage_offset()
        if name:
            entry["name"] = name
        self.tensors.append(entry)
        return len(self.tensors) - 1

    def _bind(self, tensor, number):
        key = id(tensor)
        numbers = self._tensor_numbers
        numbers[key] = (weakref.ref(tensor, lambda _, key=key: numbers.pop(key, None)), number)
        return number

    def known(self, tensor):
        entry = self._tensor_numbers.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None


class Tracing(TorchDispatchMode):
    """Sees every ATen call below autograd. Stands on top of a FakeTensorMode, which works out shapes and runs nothing."""

    def __init__(self, recorder, fakes):
        super().__init__()
        self._recorder, self._fakes = recorder, fakes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is aten.lift_fresh.default:  # torch.tensor(...) in the model's code
            result = function(*args, **kwargs)
            self._recorder.declare_constant(result, args[0])
            return result
        args, kwargs = tree_map_only(torch.Tensor, self._to_fake, (args, kwargs))
        result = function(*args, **kwargs)
        self._recorder.record(function, args, kwargs, result)
        return result

    def _to_fake(self, tensor):
        if isinstance(tensor, FakeTensor):
            return tensor
        fake = self._fakes.of(tensor)
        if self._recorder.known(fake) is None:
            self._recorder.declare_constant(fake, tensor)
        return fake


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
    """Attention carries the tag although it draws only where it drops."""
    return torch.Tag.nondeterministic_seeded in function.tags and arguments.get("dropout_p") != 0.0
