"""A graph of torch.compile's as a graph of ours: its forward pass, and its backward pass from the gradients of its outputs on.

What runs is recorded below autograd, as for ebbtide.capture: the very calls that eager training makes, in place where it
is. Everything that the user has, and everything that is handed over, lies outside the budget's memory.
"""

import re

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

from .. import interrupts
from ..capture.errors import refusals
from ..capture.fakes import Fakes
from ..capture.file import build_graph, constant_values
from ..capture.inputs import nothing_else_changes
from ..capture.known_values import KnownValues
from ..capture.layers import Layers
from ..capture.record import Recorder, _contiguous
from ..capture.trace import Tracing, rules_for
from ..errors import CaptureError

aten = torch.ops.aten


class Form:
    """A tensor that is handed over: the storage of the graph that it is copied to, and what it looks like."""

    def __init__(self, storage, tensor):
        self.storage, self.device = storage, str(tensor.device)
        self.shape, self.dtype, self.stride = tuple(tensor.shape), tensor.dtype, _writable_stride(tensor)
        self.requires_grad = tensor.requires_grad

    def make(self):
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


class Joint:
    """`graph`, and which of its storages are what.

    inputs     by argument: the storage; None for what is no tensor
    mutated    the places of arguments that forward changes
    outputs    by output: a Form, the place of the argument that is handed through, or [value] of what is no tensor
    pattern    see capture_joint; backward's autocast and, by Form that requires a gradient, the stride of its gradient or None
    tangents   storages of those gradients, in order
    gradients  by argument: a Form, or None where there is none
    constants  (storage, tensor)
    device     'cpu' or 'cuda:0': where all of it is
    """


@interrupts.deferring  # torch is patched meanwhile
def capture_joint(module, args, name, pattern=None):
    """Captures `module` (a torch.fx.GraphModule) called with `args`, under the present modes of autograd and autocast.

    `pattern` says which outputs get gradients, of which strides, and under which autocast backward runs; None: guessed.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    recorder, fakes = Recorder(), Fakes(mode)
    known, layers = KnownValues(recorder), Layers(module)
    device = device_of_all(args)
    with autocast_of(None, device):
        rules = rules_for(mode)
    given, wanted, declared = [], {}, []
    for place, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            fake = fakes.of(_hollow(arg, device), device, arg.requires_grad)
            kind = "parameter" if isinstance(arg, torch.nn.Parameter) else "input"
            declared.append(recorder.declare(fake, kind, f"argument.{place}"))
            if arg.requires_grad and torch.is_grad_enabled():
                wanted[place] = fake
            arg = fake
        else:
            declared.append(None)
        given.append(arg)
    out = Joint()
    tracing = Tracing(recorder, fakes, known, rules)
    copies, gradients, forms = [], {}, []

    def new(shape, stride, dtype):
        with _disable_current_modes():
            return fakes.of(torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device)

    def hand_over(tensor, label):
        target = new(tensor.shape, _writable_stride(tensor), tensor.dtype)
        storage = recorder.declare(target, "input", label)
        recorder.record(aten.copy_.default, (target, tensor), {}, target)
        return Form(storage, tensor)

    with nothing_else_changes(), known.not_called_fake(), mode, tracing:
        recorder.layer = layers.forward
        with refusals("the forward pass", layers), rules:
            results, _ = tree_flatten(_Follower(module, layers).run(*given, enable_io_processing=False))
        out.outputs = []
        for number, result in enumerate(results):
            through = next((p for p, fake in enumerate(given) if fake is result), None)
            if through is not None and isinstance(result, torch.Tensor):
                out.outputs.append(through)
            elif isinstance(result, torch.Tensor):
                form = hand_over(result, f"output.{number}")
                forms.append((form, result))
                out.outputs.append(form)
            else:
                out.outputs.append([result])
        del results
        forms = [(form, tensor) for form, tensor in forms if tensor.requires_grad]
        if wanted and forms:
            out.pattern = pattern or _guess([form for form, _ in forms])
            ends, tangents = [], []
            for (form, tensor), stride in zip(forms, out.pattern[1]):
                if stride is not None:
                    tangents.append(new(form.shape, stride, form.dtype))
                    recorder.declare(tangents[-1], "input", f"tangent.{len(tangents) - 1}")
                    ends.append(tensor)
            recorder.phase, recorder.layer = "backward", layers.backward
            first = len(recorder.ops)
            with refusals("the backward pass", layers), autocast_of(out.pattern[0], device), rules.backward_of(*ends):
                found = torch.autograd.grad(ends, list(wanted.values()), tangents, allow_unused=True) if ends else [None] * len(wanted)
            for place, gradient in zip(wanted, found):
                if gradient is not None:
                    number = recorder.tensor_number(gradient)
                    storage = recorder.tensors[number]["storage"]
                    gradients[place] = hand_over(gradient, f"gradient.{place}")
                    copies.append((number, storage, recorder.ops.pop()))
            recorder.ops = _with_copies(recorder, copies, first)
            tangent_storages = [recorder.storage_number(t) for t in tangents]
            del ends, found
        else:
            out.pattern, tangent_storages = None, []
    meta = {"source": "torch", "framework": f"torch {torch.__version__.split('+')[0]}", "device": device, "optimizer": "none"}
    out.device = device
    out.graph, new_storage = build_graph(recorder, name, meta | constant_values(recorder), [], {})
    out.inputs = [None if s is None else new_storage[s] for s in declared]
    for form in [f for f in out.outputs if isinstance(f, Form)] + list(gradients.values()):
        form.storage = new_storage[form.storage]
    out.tangents = [new_storage[s] for s in tangent_storages]
    out.gradients = [gradients.get(place) for place in range(len(args))]
    out.constants = [(new_storage[s], tensor) for s, tensor in recorder.constants.items() if s in new_storage]
    changed = {out.graph["tensors"][t]["storage"] for op in out.graph["ops"] for t in op.get("mutated", ())}
    out.mutated = [place for place, storage in enumerate(out.inputs) if storage in changed]
    for storage in out.graph["storages"]:
        if storage["kind"] in ("parameter", "buffer", "input"):
            storage["outside"] = True
    for place in out.mutated:
        out.graph["storages"][out.inputs[place]]["kind"] = "buffer"
    return out


def device_of_all(args):
    """Where the tensors are: the GPU, if one of them is on one."""
    found = {str(arg.device) for arg in args if isinstance(arg, torch.Tensor)}
    return next(iter(sorted(found - {"cpu"})), "cpu")


def autocast_of(dtype, device):
    return torch.autocast(device.partition(":")[0], dtype, enabled=dtype is not None)


def autocast_now(device):
    """The type that ops on the device are lowered to; None: none."""
    kind = device.partition(":")[0]
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def _guess(forms):
    """Where one number is among the outputs, it is the loss; else all are used."""
    losses = [form for form in forms if not form.shape]
    return None, tuple(form.stride if not losses or form in losses else None for form in forms)


def _with_copies(recorder, copies, first):
    """Gradients are handed over as soon as they are complete: the memory is wanted for others."""
    done = {}
    for place, op in enumerate(recorder.ops):
        for number in (*op["outputs"], *op.get("mutated", ())):
            done[number] = done[("storage", recorder.tensors[number]["storage"])] = place
    after = {}
    for number, storage, op in copies:
        after.setdefault(max(done.get(number, -1), done.get(("storage", storage), -1), first - 1), []).append(op)
    out = list(after.get(-1, ()))
    for place, op in enumerate(recorder.ops):
        out += [op, *after.get(place, ())]
    return out


def _hollow(tensor, device):
    """A tensor of the same form. What it is a part of does not matter."""
    if str(tensor.device) != device or tensor.device.type not in ("cpu", "cuda"):
        others = f", as others on {device}" if str(tensor.device) != device else ""
        raise CaptureError(f"a tensor is on {tensor.device}; expected all on one device, the CPU or a GPU{others}")
    if tensor.layout != torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise CaptureError(f"a tensor of class {type(tensor).__name__}, {tensor.layout}; expected plain dense tensors")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _writable_stride(tensor):
    """The tensor's own strides, unless two of its elements share a place."""
    reach = 1
    for size, stride in sorted(((n, s) for n, s in zip(tensor.shape, tensor.stride()) if n > 1), key=lambda pair: pair[1]):
        if stride < reach:
            return _contiguous(tensor.shape)
        reach = stride * (size - 1) + reach
    return tensor.stride()


class _Follower(torch.fx.Interpreter):
    """Runs the calls of a graph and knows which of the user's modules each belongs to."""

    def __init__(self, module, layers):
        super().__init__(module)
        self._layers = layers
        self.extra_traceback = False

    def run_node(self, node):
        stack = node.meta.get("nn_module_stack") or {}
        path = re.sub(r"^L\['self'\]\.?|_modules|[\[\]'\"]", "", list(stack.values())[-1][0]) if stack else ""
        with self._layers.inside(re.sub(r"\.+", ".", path).strip(".")):
            try:
                return super().run_node(node)
            except Exception as error:
                line = line_of(node.stack_trace)
                if line is None:
                    raise
                if isinstance(error, DataDependentOutputException):
                    raise CaptureError(
                        f"{line}: a number is read from a tensor, as torch.compile does with a float that changes from call to call (dynamic=True); expected "
                        "a number that stays, or a tensor in its place") from error
                if "leaf Variable that requires grad is being used in an in-place operation" in str(error):
                    raise CaptureError(
                        f"{line}: changes in place what an earlier graph has made, and which needs a gradient; expected both in one graph "
                        "(where DistributedDataParallel splits the model: compile the model before it is wrapped, or set "
                        "torch._dynamo.config.optimize_ddp = False)") from error
                raise CaptureError(f"{line}: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}") from error


def line_of(stack_trace):
    """'train.py:12', the innermost line of a stack trace's text."""
    found = re.findall(r'File "([^"]+)", line (\d+)', stack_trace or "")
    return f"{found[-1][0]}:{found[-1][1]}" if found else None
