"""Watches a training step: every ATen call that reaches the kernels goes to the recorder, none is run."""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .. import interrupts
from ..errors import CaptureError
from . import saved_hooks
from .eager import InPlace
from .fakes import Fakes
from .kernels import call, drawn_seed, is_dropout_state
from .known_values import KnownValues
from .record import Recorder, map_tensors
from .watch.observe import pause, resume

aten = torch.ops.aten

_BATCH_NORMS = {aten.native_batch_norm.default, aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats}


class Tracing(TorchDispatchMode):
    """Sees every ATen call below autograd. Stands on top of a FakeTensorMode, which works out shapes and runs nothing."""

    def __init__(self, recorder, fakes, known, rules):
        super().__init__()
        self._recorder, self._fakes, self._known, self._rules = recorder, fakes, known, rules

    def beside(self, recorder, known):
        """The same for another recorder, or with other answers."""
        return Tracing(recorder, self._fakes, known, self._rules)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        paused = pause()
        try:
            return self._dispatch(function, args, kwargs or {})
        finally:
            resume(paused)

    def _dispatch(self, function, args, kwargs):
        if function.namespace in ("prim", "profiler"):  # a tensor asked for its device, a mark for profilers
            return function(*args, **kwargs)
        if function is aten.lift_fresh.default:  # torch.tensor(...) in the model's code
            result = function(*args, **kwargs)
            self._recorder.declare_constant(result, args[0], fresh=True)
            return result
        args, kwargs = map_tensors(self._to_fake, (args, kwargs))
        args = self._complex_numbers_as_constants(function, args)
        kwargs = {name: value for name, value in kwargs.items() if not _is_default_generator(value)}
        if function is aten._local_scalar_dense.default:  # .item(), `if` on a tensor
            value = self._known.number(args[0])
            value = drawn_seed(self._known, args[0]) if value is None else value
            return value if value is not None else function(*args)
        if function is aten.set_.source_Storage and args[0].numel() == 0:  # cuDNN asks whether weights lie in one block
            self._recorder.forget(args[0])
            return function(*args, **kwargs)
        interrupts.check()  # not before: torch asks for devices where nothing may be raised
        function = self._rules.in_place_form(function, args) or function
        result = call(function, args, kwargs, self._known)
        if isinstance(result, tuple):
            result = _as_kernels_make(function, args, _apart(result))
        if self._rules.writes_first_argument(function, args, result):
            self._recorder.record_in_place(function, args, kwargs, result)
        else:
            self._recorder.record(function, args, kwargs, result)
        return result

    def _complex_numbers_as_constants(self, function, args):
        """A graph holds real numbers. A complex one in a tensor's place is a tensor of one element, of the type that the op computes in."""
        if not any(type(arg) is complex for arg in args):
            return args
        like = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
        made = list(args)
        for place, (argument, value) in enumerate(zip(function._schema.arguments, args)):
            if type(value) is complex and str(argument.real_type) == "Tensor":
                with _disable_current_modes():
                    dtype = torch.complex128 if like is None else torch.result_type(torch.empty((1,) * like.dim(), dtype=like.dtype), value)
                    number = torch.tensor(value, dtype=dtype)
                made[place] = self._fakes.of(number, "cpu" if like is None else like.device)
                self._recorder.declare_constant(made[place], number, fresh=True)
        return made

    def _to_fake(self, tensor):
        if isinstance(tensor, FakeTensor):
            if is_dropout_state(tensor) and not self._recorder.knows_storage(tensor):
                self._recorder.declare(tensor, "buffer", "cudnn.dropout_state")
            return tensor
        if tensor.requires_grad and torch.is_grad_enabled():
            raise CaptureError(
                f"a tensor of shape {tuple(tensor.shape)} requires a gradient and is not reached through the model; expected "
                "the model's parameters only, as model.parameters() gives them during the step"
            )
        fake = self._fakes.of(tensor)
        if self._recorder.known(fake) is None:
            self._recorder.declare_constant(fake, tensor)
        return fake


def _is_default_generator(value):
    """That C++ code names at times, where the program gave none."""
    if not isinstance(value, torch.Generator):
        return False
    if value.device.type == "cuda":
        torch.cuda.init()
    own = torch.cuda.default_generators if value.device.type == "cuda" else (torch.default_generator,)
    return any(value._cdata == generator._cdata for generator in own)


def rules_for(mode):
    """The in-place rules, ready for a step that is traced with fakes of `mode`."""
    rules, recorder = InPlace(), Recorder()
    as_they_are = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)  # in the place of the user's hooks, if there are any
    hooked = saved_hooks.top() is not None
    with torch.enable_grad(), as_they_are if hooked else contextlib.nullcontext(), mode, Tracing(recorder, Fakes(mode), KnownValues(recorder), rules):
        rules.calibrate()
    return rules


def _apart(results):
    """Some shape rules hand out one fake for two results that are two tensors in truth (the biases' gradients of an
    LSTM layer)."""
    seen = set()
    apart = []
    for result in results:
        if isinstance(result, torch.Tensor):
            if id(result) in seen:
                result = torch.empty_like(result)
            seen.add(id(result))
        apart.append(result)
    return tuple(apart)


def _as_kernels_make(function, args, results):
    """The CPU's batch norm of lowered inputs with parameters in float32 keeps its statistics in float32; its shape rule says otherwise."""
    if function not in _BATCH_NORMS or results[0].device.type != "cpu":
        return results
    parameters = [p for p in args[1:5] if isinstance(p, torch.Tensor)]
    if args[0].dtype not in (torch.bfloat16, torch.float16) or all(p.dtype != torch.float32 for p in parameters):
        return results
    return results[0], *(torch.empty_like(each, dtype=torch.float32) for each in results[1:])
