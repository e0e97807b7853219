"""From one of torch's optimizers to its recorded update: which description, which path, whose state."""

import torch

from ...errors import CaptureError
from . import adafactor, adagrad, adam, rmsprop, sgd
from .calls import Calls, Scalars

_DESCRIPTIONS = {c: d for d in (sgd, adam, rmsprop, adagrad, adafactor) for c in d.OPTIMIZERS}
SUPPORTED = tuple(c.__name__ for c in _DESCRIPTIONS)


def describe(optimizer):
    """The Update of an optimizer; CaptureError where its class or its flags have no description."""
    names = ", ".join(SUPPORTED)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise CaptureError(f"optimizer is of type {type(optimizer).__name__}; expected one of torch.optim's {names}, or None")
    description = _DESCRIPTIONS.get(type(optimizer))
    if description is None:
        raise CaptureError(f"optimizer {type(optimizer).__name__} cannot be captured; supported: {names}")
    refused = ["capturable", "differentiable", "fused"]
    if not hasattr(description, "many"):
        refused.append("foreach")
    for number, group in enumerate(optimizer.param_groups):
        for flag in refused:
            if group.get(flag):
                raise CaptureError(
                    f"optimizer {type(optimizer).__name__}: {flag}=True in group {number} cannot be captured; "
                    f"supported: {names} with default flags"
                )
        for name, value in group.items():
            if name != "params" and any(isinstance(v, torch.Tensor) for v in (value if isinstance(value, tuple) else (value,))):
                raise CaptureError(
                    f"optimizer {type(optimizer).__name__}: {name} in group {number} is a Tensor; expected a number"
                )
    return Update(optimizer, description)


class Update:
    """The update of one optimizer. `record` may be called once; `scalar_values` before every step."""

    def __init__(self, optimizer, description):
        self._description = description
        self._optimizer = optimizer
        self._structure = self._structures()
        self._taken_before = {id(p): self._taken(p) for group in optimizer.param_groups for p in group["params"]}
        self._updated = [[] for _ in optimizer.param_groups]  # the parameters that get gradients, by group
        self.name = type(optimizer).__name__.lower()

    def record(self, recorder, tracing, parameters, declare_state):
        """Appends the update's ops. `parameters`: (real, fake, name) by id of the real parameter;
        `declare_state(fake, name, real or None, value)` makes a state tensor known."""
        aten = Calls(recorder, tracing)
        for number, group in enumerate(self._optimizer.param_groups):
            members = []
            for parameter in group["params"]:
                if id(parameter) not in parameters:
                    raise CaptureError(f"optimizer: group {number} holds a parameter that is not the model's")
                real, fake, name = parameters[id(parameter)]
                if fake.grad is not None:
                    members.append((fake, fake.grad, self._states(group, real, fake, name, declare_state), name))
                    self._updated[number].append(real)
                elif self._optimizer.state.get(real):  # never updated, but it takes memory
                    self._states(group, real, fake, name, declare_state)
            taken = _one_count(number, (self._taken_before[id(p)] for p in self._updated[number]))
            values = self._description.scalars(group, taken + 1)
            scalars = Scalars({n: recorder.scalar(f"group{number}.{n}", v) for n, v in values.items()})
            self._record_group(recorder, aten, group, members, scalars)

    def _record_group(self, recorder, aten, group, members, scalars):
        if members and self._many(group, [m[0] for m in members]):
            recorder.layer = lambda: ""
            for batch in _by_device_and_type(members):
                states = {name: [m[2][name] for m in batch] for name in batch[0][2]}
                self._description.many(aten, group, [m[0] for m in batch], [m[1] for m in batch], states, scalars)
        else:
            for fake, gradient, state, name in members:
                layer = name.rpartition(".")[0]
                recorder.layer = lambda layer=layer: layer
                self._description.one(aten, group, fake, gradient, state, scalars)

    def scalar_values(self, steps=None):
        """The graph's scalars, in its order, for the step that comes next: the hyper-parameters as they are now, and
        `steps[g]` (default: the state's own count) steps of group g already taken."""
        values = []
        for number, group in enumerate(self._optimizer.param_groups):
            taken = steps[number] if steps is not None else _one_count(number, map(self._taken, self._updated[number]))
            values += [float(v) for v in self._description.scalars(group, taken + 1).values()]
        return values

    def counted(self):
        """The parameters whose state has a count of steps under "step", which each step raises by one."""
        if hasattr(self._description, "taken"):
            return []
        return [parameter for group in self._updated for parameter in group]

    def still_fits(self):
        """False once a change of the hyper-parameters asks for other ops than those recorded."""
        return self._structures() == self._structure

    def _structures(self):
        return [(d["foreach"], self._description.structure(d)) for d in self._optimizer.param_groups]

    def _many(self, group, parameters):
        if group["foreach"] is not None:
            return group["foreach"]
        return getattr(self._description, "MANY_BY_DEFAULT", True) and all(p.device.type == "cuda" for p in parameters)

    def _taken(self, parameter):
        """Steps that a parameter has taken, as its state counts them; None: not counted."""
        state = self._optimizer.state.get(parameter, {})
        if "step" in state:
            return 0 if state["step"].device.type == "meta" else int(state["step"])
        return getattr(self._description, "taken", lambda state: None)(state)

    def _states(self, group, real, fake, name, declare_state):
        made = {}
        for state_name, (shape, value) in self._description.states(group, fake).items():
            present = self._optimizer.state.get(real, {}).get(state_name)
            if present is not None:
                tensor = torch.empty_strided(present.shape, present.stride(), dtype=present.dtype, device=fake.device)
            elif shape is None:
                tensor = torch.empty_like(fake)
            else:
                tensor = torch.empty(shape, dtype=fake.dtype, device=fake.device)
            declare_state(tensor, f"{state_name}.{name}", present, value)
            made[state_name] = tensor
        return made


def _one_count(number, counts):
    """The number of steps that all parameters of a group have taken."""
    counts = {count for count in counts if count is not None}
    if len(counts) > 1:
        raise CaptureError(f"optimizer: parameters of group {number} have taken different numbers of steps: {sorted(counts)}")
    return counts.pop() if counts else 0


def _by_device_and_type(members):
    batches = {}
    for member in members:
        batches.setdefault((member[0].device, member[0].dtype), []).append(member)
    return batches.values()
