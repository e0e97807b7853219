"""Any optimizer that is written in torch's ops, by tracing its own step() on fakes.

The step runs twice before it is recorded, so that state which the first steps make is there. State that each step makes anew is the old one, which is
there before the step, beside a temporary, which takes its place. Its numbers (learning rates, counts of steps)
are those of that moment and stand in the graph as constants: it tells the memory of an update, and is not for running.
"""

import collections
import contextlib
import os
import sys

import torch
from torch._subclasses import fake_impls
from torch.utils._pytree import tree_leaves

from ...errors import CaptureError
from ..errors import refusals
from ..known_values import KnownValues
from ..record import Recorder

_FIRST_STEPS = 2


class TracedUpdate:
    """The update of one optimizer. `record` may be called once."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self.name = type(optimizer).__name__.lower()
        self.assumed = []  # "optimizer.py:12: a number that depends on values was taken for 1"

    def record(self, recorder, tracing, parameters, declare_state):
        """As Update.record."""
        copy = self._on_fakes(parameters)
        first = Recorder()
        for _, fake, name in parameters.values():
            first.declare(fake, "parameter", name)
            if fake.grad is not None:
                first.declare(fake.grad, "input", name)
        warm = _AssumingOne(first, [])
        for _ in range(_FIRST_STEPS):
            self._run(copy, tracing.beside(first, warm), warm)
        for name, tensor in self._tensors_of(copy, parameters):
            if recorder.known(tensor) is not None:
                continue
            if tensor.device.type == "cpu" and tensor.numel() == 1:  # a count of steps
                recorder.declare_constant(tensor, torch.tensor(warm.number(tensor), dtype=tensor.dtype))
            else:
                declare_state(tensor, name, None, 0.0)
        place = len(recorder.ops)
        known = _AssumingOne(recorder, self.assumed)
        self._run(copy, tracing.beside(recorder, known), known)
        if any(fake.device.type != "cpu" for _, fake, _ in parameters.values()):
            _drop_host_ops(recorder, place)

    def _on_fakes(self, parameters):
        """A copy of the optimizer whose parameters are the fakes; its state it makes itself."""
        copy = object.__new__(type(self._optimizer))
        copy.__dict__.update({name: value for name, value in vars(self._optimizer).items() if name != "step"})
        copy.state = collections.defaultdict(dict)
        copy.param_groups = []
        for number, group in enumerate(self._optimizer.param_groups):
            missing = [p for p in group["params"] if id(p) not in parameters]
            if missing:
                raise CaptureError(f"optimizer: group {number} holds a parameter that is not the model's")
            fakes = [parameters[id(p)][1] for p in group["params"]]
            copy.param_groups.append(group | {"params": fakes} | _default_path(group, fakes))
        return copy

    def _run(self, copy, tracing, known):
        inside = refusals(f"the update by {type(copy).__name__}", _NoLayers())
        with inside, tracing, known.inside_of_calls(), torch.compiler.set_stance("force_eager"):
            try:
                copy.step()
            except TypeError as error:
                if "closure" not in str(error):
                    raise
                raise CaptureError(
                    f"optimizer {type(copy).__name__} calls the model itself, as often as its losses ask for; expected one whose step() "
                    "needs no closure. `ebbtide dryrun` runs such a program as it is") from error
            except RuntimeError as error:
                if "does not require grad" not in str(error):
                    raise
                raise CaptureError(
                    f"optimizer {type(copy).__name__} takes gradients of gradients, for which backward would have to keep its own graph "
                    "(create_graph=True); expected one that reads .grad alone. `ebbtide dryrun` runs such a program as it is") from error

    def _tensors_of(self, copy, parameters):
        """(name, tensor) of all that the optimizer refers to beside parameters and gradients."""
        own = {id(t) for _, fake, _ in parameters.values() for t in (fake, fake.grad)}
        names = {id(fake): name for _, fake, name in parameters.values()}
        for parameter, state in copy.state.items():
            for key, value in state.items() if isinstance(state, dict) else [("state", state)]:
                for leaf in tree_leaves(value):
                    if isinstance(leaf, torch.Tensor) and id(leaf) not in own:
                        own.add(id(leaf))
                        yield f"{key}.{names.get(id(parameter), '')}", leaf
        others = {name: value for name, value in vars(copy).items() if name not in ("state", "param_groups", "defaults")}
        groups = [{k: v for k, v in group.items() if k != "params"} for group in copy.param_groups]
        for leaf in tree_leaves([others, groups]):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in own:
                own.add(id(leaf))
                yield "optimizer", leaf

    def scalar_values(self, steps=None):
        return []

    def counted(self):
        return []

    def still_fits(self):
        return True


def _default_path(group, fakes):
    """torch.optim's own classes take many parameters at a time by default, where all are plain CUDA tensors. Fakes are not plain to them."""
    chooses = "foreach" in group and group["foreach"] is None and not group.get("fused") and not group.get("differentiable")
    return {"foreach": True} if chooses and all(fake.device.type == "cuda" for fake in fakes) else {}


class _AssumingOne(KnownValues):
    """Where an optimizer asks for a number that depends on values (a norm, a trust ratio), it is taken for 1, and said so."""

    def __init__(self, recorder, assumed):
        super().__init__(recorder)
        self._assumed = assumed

    @contextlib.contextmanager
    def inside_of_calls(self):
        """Inside, torch's rules for fakes ask here too, where a call looks at a number itself (`add(alpha=tensor)`)."""
        rules, question = fake_impls.op_implementations_dict, torch.ops.aten._local_scalar_dense.default
        own = rules[question]
        rules[question] = lambda _mode, _function, fake: self.number(fake)
        try:
            yield
        finally:
            rules[question] = own

    def number(self, fake):
        value = super().number(fake)
        if value is not None:
            return value
        text = f"{_asking_line() or 'the optimizer'}: a number that depends on values was taken for 1"
        if text not in self._assumed:
            self._assumed.append(text)
        return True if fake.dtype == torch.bool else 1.0 if fake.dtype.is_floating_point else 1


def _asking_line():
    """'lamb.py:40' of the innermost frame that is neither torch's nor ours."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    skipped = (ours, os.path.dirname(torch.__file__))
    frame = sys._getframe()
    while frame is not None:
        path = os.path.abspath(frame.f_code.co_filename)
        if os.path.exists(path) and not path.startswith(skipped):
            return f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


class _NoLayers:
    def current(self):
        return ""


def _drop_host_ops(recorder, place):
    """Counts of steps and the like lie on the host: ops that make or change nothing else are no part of a GPU's step."""
    def is_host(op):
        touched = op["outputs"] + op.get("mutated", [])
        return bool(touched) and all(recorder.devices[t].type == "cpu" for t in touched)

    kept = [n for n in range(place, len(recorder.ops)) if not is_host(recorder.ops[n])]
    recorder.ops[place:] = [recorder.ops[n] for n in kept]
    recorder.calls[place:] = [recorder.calls[n] for n in kept]
