"""From one of torch's optimizers to its recorded update: which description, which path, whose state."""

import inspect
import math
import os
import sys

import torch

from ...errors import CaptureError
from . import adafactor, adagrad, adam, rmsprop, sgd
from .calls import Calls, Scalars
from .plain import PlainUpdate
from .traced import TracedUpdate

_DESCRIPTIONS = {c: d for d in (sgd, adam, rmsprop, adagrad, adafactor) for c in d.OPTIMIZERS}
_OPTIMIZER_MODULE = sys.modules[torch.optim.Optimizer.__module__]
_STEPS = {c: inspect.unwrap(c.step).__code__ for c in _DESCRIPTIONS}  # torch's own, whatever takes their place later
SUPPORTED = tuple(c.__name__ for c in _DESCRIPTIONS)


def describe(optimizer, may_trace=False, plain=None):
    """The Update of an optimizer. Where its class or its flags have no description: its TracedUpdate, where the step is not to be run; where it is, its
    PlainUpdate, unless `plain` is None: then CaptureError. A text in `plain` says why nothing but a PlainUpdate will do."""
    names = ", ".join(SUPPORTED)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise CaptureError(f"optimizer is of type {type(optimizer).__name__}; expected one of torch.optim's {names}, or None")
    description = _DESCRIPTIONS.get(type(optimizer))
    try:
        if description is None:
            raise CaptureError(f"optimizer {type(optimizer).__name__} cannot be captured; supported: {names}")
        added = _added_to(optimizer)
        if added is not None:
            raise CaptureError(f"optimizer {type(optimizer).__name__} has {added}, which a captured step would not run; expected torch's own step alone")
        _check_flags(optimizer, description, names)
        if plain is not None:
            _check_parameters(optimizer, plain)
    except CaptureError as error:
        if plain is not None:
            return PlainUpdate(optimizer, str(error))
        if not may_trace:
            raise
        return TracedUpdate(optimizer)
    return Update(optimizer, description)


def _check_flags(optimizer, description, names):
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


def _check_parameters(optimizer, plain):
    if plain:
        raise CaptureError(plain)
    if any(parameter.is_complex() for group in optimizer.param_groups for parameter in group["params"]):
        raise CaptureError(f"optimizer {type(optimizer).__name__}: a parameter is complex, for which its arithmetic differs")


class Update:
    """The update of one optimizer. `record` may be called once; `scalar_values` before every step."""

    def __init__(self, optimizer, description):
        self._description = description
        self._optimizer = optimizer
        self._structure = self._structures()
        self._held = [list(group["params"]) for group in optimizer.param_groups]  # so that their ids stay their own
        self._taken_before = {id(p): self._taken(p) for group in optimizer.param_groups for p in group["params"]}
        self._cohorts = [[] for _ in optimizer.param_groups]  # the parameters that get gradients, by group and by steps taken
        self.name = type(optimizer).__name__.lower()

    def record(self, recorder, tracing, parameters, declare_state):
        """Appends the update's ops. `parameters`: (real, fake, name) by id of the real parameter;
        `declare_state(fake, name, real or None, value)` makes a state tensor known."""
        aten = Calls(recorder, tracing)
        self._check_foreign(parameters)
        for number, group in enumerate(self._groups()):
            members = []
            for parameter in group["params"]:
                if id(parameter) not in parameters:
                    continue  # another took its place in the model; torch passes over it too
                real, fake, name = parameters[id(parameter)]
                if fake.grad is not None:
                    if real.is_complex():
                        raise CaptureError(f"parameter {name} is complex; expected real parameters, as an optimizer's arithmetic differs")
                    members.append((real, fake, fake.grad, self._states(group, real, fake, name, declare_state), name))
                elif self._optimizer.state.get(real):  # never updated, but it takes memory
                    self._states(group, real, fake, name, declare_state)
            # Parameters that have taken as many steps have the same numbers; those that were frozen for a time have others.
            cohorts = {}
            for member in members:
                cohorts.setdefault(self._taken_before[id(member[0])], []).append(member)
            for place, (taken, cohort) in enumerate(cohorts.items() if cohorts else [(0, [])]):
                self._cohorts[number].append([member[0] for member in cohort])
                prefix = f"group{number}" if place == 0 else f"group{number}.cohort{place}"
                values = self._scalars(number, group, taken)
                scalars = Scalars({n: recorder.scalar(f"{prefix}.{n}", v) for n, v in values.items()})
                self._record_group(recorder, aten, group, [member[1:] for member in cohort], scalars)

    def _check_foreign(self, parameters):
        """Other parameters may take the place of the optimizer's in the model later on; an optimizer for another model is a mistake."""
        taken = bool(self._optimizer.state) or getattr(self._optimizer, "_opt_called", False)
        foreign = [(n, p) for n, group in enumerate(self._optimizer.param_groups) for p in group["params"] if id(p) not in parameters]
        for number, parameter in foreign:
            if not taken or parameter.grad is not None:
                raise CaptureError(f"optimizer: group {number} holds a parameter that is not the model's"
                                   + (" and has a gradient; expected .grad None" if taken else ""))

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
        for number, group in enumerate(self._groups()):
            for cohort in self._cohorts[number]:
                taken = steps[number] if steps is not None else self._taken(cohort[0]) if cohort else 0
                values += [float(v) for v in self._description.scalars(group, taken + 1).values()]
        return values

    def counted(self):
        """The parameters whose state has a count of steps under "step", which each step raises by one."""
        if hasattr(self._description, "taken"):
            return []
        return [parameter for group in self._cohorts for cohort in group for parameter in cohort]

    def still_fits(self):
        """False once the optimizer would do something else than what was recorded."""
        if self._structures() != self._structure:
            return False
        for group in self._cohorts:
            counts = [{self._taken(parameter) for parameter in cohort} for cohort in group]
            if any(len(taken) > 1 for taken in counts) or len(set().union(*counts)) < len([taken for taken in counts if taken]):
                return False
        return True

    def _groups(self):
        """As torch has them since 2.7. Before, the class alone says that weight decay is decoupled from the gradient."""
        groups = self._optimizer.param_groups
        if not isinstance(self._optimizer, torch.optim.AdamW):
            return groups
        return [group if "decoupled_weight_decay" in group else group | {"decoupled_weight_decay": True} for group in groups]

    def _structures(self):
        """All that decides which ops there are, and that torch's own step is what runs. Numbers count by their types."""
        optimizer, groups = self._optimizer, []
        for group in self._groups():
            known = {name: (value if type(value) in (bool, str, type(None)) else type(value)) for name, value in group.items() if name in optimizer.defaults}
            groups.append((known, self._description.structure(group), [id(p) for p in group["params"]]))
        return groups, _added_to(optimizer)

    def _scalars(self, number, group, taken):
        values = self._description.scalars(group, taken + 1)
        for name, value in values.items():
            if not math.isfinite(value):
                raise CaptureError(f"optimizer: {name} of group {number} is {value}; expected finite hyper-parameters (lr {group['lr']})")
        return values

    def _many(self, group, parameters):
        if group["foreach"] is not None:
            return group["foreach"]
        return getattr(self._description, "MANY_BY_DEFAULT", True) and all(p.device.type == "cuda" for p in parameters)

    def _taken(self, parameter):
        """Steps that a parameter has taken, as its state counts them."""
        state = self._optimizer.state.get(parameter, {})
        if "step" in state:
            count = state["step"]
            taken = float(count) if not isinstance(count, torch.Tensor) or count.device.type != "meta" else 0
            return int(taken) if taken == int(taken) else taken
        return getattr(self._description, "taken", lambda state: 0)(state)

    def _states(self, group, real, fake, name, declare_state):
        made = {}
        for state_name, (shape, value) in self._description.states(group, fake).items():
            present = self._optimizer.state.get(real, {}).get(state_name)
            if present is not None:
                tensor = torch.empty_strided(present.shape, present.stride(), dtype=present.dtype, device=fake.device)
            elif self._optimizer.state.get(real) and not hasattr(self._description, "taken"):
                raise CaptureError(f"optimizer: the state of {name} has no {state_name}, which its flags ask for since they changed; "
                                   "torch's own step would raise KeyError")
            elif shape is None:
                tensor = torch.empty_like(fake)
            else:
                tensor = torch.empty(shape, dtype=fake.dtype, device=fake.device)
            declare_state(tensor, f"{state_name}.{name}", present, value)
            made[state_name] = tensor
        return made


def _added_to(optimizer):
    """What would run beside torch's own step, in a few words; None: nothing."""
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if getattr(optimizer, name, None):
            return "a hook of its step"
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        if any(not _is_ours(hook) for hook in getattr(_OPTIMIZER_MODULE, name, {}).values()):
            return "a hook of every optimizer's step"
    for holder in (vars(optimizer), vars(type(optimizer))):
        if holder.get("step") is not None and not _is_torchs(holder["step"], type(optimizer)):
            return "another step in the place of torch's"
    return None


def _is_ours(hook):
    """What a dry run and torch's profiler add sees every step, and changes nothing."""
    return (getattr(hook, "__module__", None) or "").partition(".")[0] in ("ebbtide", "_ebbtide_dryrun", "torch")


def _is_torchs(step, of):
    """Whether it is torch's own step, in the wrappers that torch itself puts around it (schedulers do)."""
    step = getattr(step, "__func__", step)
    while hasattr(step, "__wrapped__"):
        if not _in_torch(step):
            return False
        step = step.__wrapped__
    return _in_torch(step) and step.__code__ is _STEPS[of]


def _in_torch(function):
    return getattr(getattr(function, "__code__", None), "co_filename", "").startswith(os.path.dirname(torch.__file__))


def _by_device_and_type(members):
    batches = {}
    for member in members:
        batches.setdefault((member[0].device, member[0].dtype), []).append(member)
    return batches.values()
