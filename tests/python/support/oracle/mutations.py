"""What users do between two steps, by class. A mutation changes a World; it must do the same in every run of a program.

`of` says what the program must have for it, `ways` in which ways in it makes sense, `guard` which of the classes of
docs/guarantees.md it is of.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn

from . import models

ALL_WAYS = frozenset({"step", "compile", "budget", "shared"})


@dataclasses.dataclass
class World:
    """What a program has at hand between its steps."""

    model: nn.Module
    loss_fn: Any
    optimizer: torch.optim.Optimizer
    seed: int
    around: list[Any] = dataclasses.field(default_factory=list)  # contexts that the next step is taken in
    of_batch: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda batch: batch  # what is done to each batch from now on
    after_step: list[Callable[[], object]] = dataclasses.field(default_factory=list)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)  # tensors that are compared too


@dataclasses.dataclass(frozen=True)
class Mutation:
    kind: str
    change: Callable[[World], object]
    of: Callable[[World], bool] = lambda world: True
    ways: frozenset[str] = ALL_WAYS


MUTATIONS: dict[str, Mutation] = {}


def mutation(kind: str, of: Callable[[World], bool] = lambda world: True, ways: frozenset[str] = ALL_WAYS) -> Callable[[Any], Any]:
    def add(change: Callable[[World], object]) -> Callable[[World], object]:
        MUTATIONS[change.__name__] = Mutation(kind, change, of, ways)
        return change

    return add


def _modules(world: World, kind: type | tuple[type, ...]) -> list[Any]:
    return [m for m in world.model.modules() if isinstance(m, kind)]


def _has(kind: type | tuple[type, ...]) -> Callable[[World], bool]:
    return lambda world: bool(_modules(world, kind))


def _attribute(name: str) -> Callable[[World], bool]:
    return lambda world: hasattr(world.model, name)


def _first(world: World) -> nn.Parameter:
    return next(iter(world.model.parameters()))


def _owner(world: World, parameter: nn.Parameter) -> tuple[nn.Module, str]:
    return next((m, n) for m in world.model.modules() for n, p in m.named_parameters(recurse=False) if p is parameter)


# ---- Attributes, globals, closures

@mutation("attribute", _has(nn.Dropout))
def dropout_p(world):
    for module in _modules(world, nn.Dropout):
        module.p = 0.6


@mutation("attribute", _has(nn.BatchNorm2d))
def momentum_of_batch_norm(world):
    for module in _modules(world, nn.BatchNorm2d):
        module.momentum = 0.5


@mutation("attribute", _has((nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)))
def eps_of_norm(world):
    for module in _modules(world, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
        module.eps = 0.1


@mutation("attribute", lambda world: isinstance(world.loss_fn, nn.CrossEntropyLoss))
def label_smoothing(world):
    world.loss_fn.label_smoothing = 0.3


@mutation("attribute", lambda world: isinstance(world.loss_fn, nn.NLLLoss))
def weight_of_loss(world):
    world.loss_fn.weight.mul_(2)


@mutation("attribute", _attribute("scale"))
def number(world):
    world.model.scale = 0.25


@mutation("attribute", _attribute("flag"))
def flag(world):
    world.model.flag = not world.model.flag


@mutation("attribute", _attribute("factors"))
def item_of_a_list(world):
    world.model.factors[0] = 0.3


@mutation("attribute", _attribute("named"))
def item_of_a_dict(world):
    world.model.named["shift"] = -0.4


@mutation("attribute", _has(models.Attention))
def number_of_an_inner_module(world):
    for module in _modules(world, models.Attention):
        module.p = 0.5


@mutation("attribute", _has(nn.Embedding))
def max_norm_of_embedding(world):
    _modules(world, nn.Embedding)[0].padding_idx = 3


@mutation("global", lambda world: world.loss_fn is models.global_loss)
def global_number(world):
    models.WEIGHT = 0.5


@mutation("closure", lambda world: hasattr(world.loss_fn, "share"))
def closure(world):
    world.loss_fn.share["of"] = 0.2


@mutation("closure", lambda world: hasattr(world.loss_fn, "share"))
def closure_replaced(world):
    world.loss_fn.set_weight(0.3)


# ---- Tensors that are no parameters

@mutation("tensor", _attribute("mask"))
def tensor_attribute_in_place(world):
    world.model.mask[::3] = 0


@mutation("tensor", _attribute("mask"))
def tensor_attribute_replaced(world):
    world.model.mask = torch.linspace(0, 1, 48)


@mutation("tensor", _attribute("offset"))
def buffer_in_place(world):
    world.model.offset.mul_(3)


@mutation("tensor", _attribute("offset"))
def buffer_replaced(world):
    world.model.register_buffer("offset", torch.full((48,), -0.2), persistent=False)


@mutation("tensor", _has(nn.BatchNorm2d))
def running_statistics_reset(world):
    for module in _modules(world, nn.BatchNorm2d):
        module.reset_running_stats()


@mutation("tensor", _attribute("hidden"))
def hidden_state_reset(world):
    world.model.hidden = torch.ones(48)


# ---- Modules and hooks

@mutation("module", _attribute("act"))
def activation_replaced(world):
    world.model.act = nn.Tanh()


@mutation("module", lambda world: isinstance(getattr(world.model, "last", None), nn.Linear) and world.model.last.bias is not None)
def layer_replaced_by_a_copy(world):
    old = world.model.last
    world.model.last = copy.deepcopy(old)
    for mine, theirs in zip(old.parameters(), world.model.last.parameters()):
        _replace_in_groups(world, mine, theirs)


@mutation("module", lambda world: isinstance(world.model, nn.Sequential))
def layer_added_to_a_sequence(world):
    world.model.insert(1, nn.LayerNorm(48, elementwise_affine=False))


@mutation("module", _attribute("act"))
def method_patched(world):
    act = world.model.act
    act.forward = lambda x: torch.tanh(x) * 0.5


@mutation("hook")
def forward_hook(world):
    world.model.register_forward_hook(lambda module, args, out: out * 0.5)


@mutation("hook")
def forward_pre_hook(world):
    module = next(m for m in world.model.modules() if not list(m.children()))
    module.register_forward_pre_hook(lambda module, args: args)
    module.register_forward_hook(lambda module, args, out: out + 0.01 * out.detach().mean())


@mutation("hook")
def hook_that_counts(world):
    calls = []

    def hook(module, args, out):
        calls.append(1)
        return out / len(calls)

    world.model.register_forward_hook(hook)


@mutation("hook", lambda world: isinstance(getattr(world.model, "last", None), nn.Linear))
def backward_hook(world):
    world.model.last.register_full_backward_hook(lambda module, given, got: tuple(g * 0.5 if g is not None else None for g in given))


@mutation("hook")
def hook_of_a_parameter(world):
    _first(world).register_hook(lambda grad: grad * 0.1)


@mutation("hook")
def hook_after_accumulation(world):
    def shrink(parameter):
        parameter.grad.mul_(0.1)

    _first(world).register_post_accumulate_grad_hook(shrink)


@mutation("hook")
def global_forward_hook(world):
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 0.9 if isinstance(module, nn.Linear) else None)
    world.after_step.append(handle.remove)


@mutation("mode")
def evaluation(world):
    world.model.eval()


@mutation("mode", _has((nn.BatchNorm2d, nn.Dropout)))
def evaluation_of_a_part(world):
    for module in _modules(world, (nn.BatchNorm2d, nn.Dropout)):
        module.eval()


# ---- Parameters

def _replace_in_groups(world: World, old: torch.Tensor, new: torch.Tensor) -> None:
    for group in world.optimizer.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    if old in world.optimizer.state:
        world.optimizer.state[new] = world.optimizer.state.pop(old)


@mutation("parameter")
def frozen(world):
    _first(world).requires_grad_(False)


@mutation("parameter", lambda world: len(list(world.model.parameters())) > 3)
def unfrozen(world):
    for parameter in list(world.model.parameters())[:2]:
        parameter.requires_grad_(not parameter.requires_grad)


@mutation("parameter")
def parameter_in_place(world):
    with torch.no_grad():
        _first(world).mul_(0.5)


@mutation("parameter")
def parameter_data(world):
    _first(world).data = _first(world).data.clone() * 0.5


@mutation("parameter")
def parameter_replaced(world):
    old = _first(world)
    module, name = _owner(world, old)
    new = nn.Parameter(old.detach().clone() * 0.5)
    setattr(module, name, new)
    _replace_in_groups(world, old, new)


@mutation("parameter")
def parameter_replaced_behind_the_optimizer(world):
    old = _first(world)
    module, name = _owner(world, old)
    setattr(module, name, nn.Parameter(old.detach().clone() * 0.5))


@mutation("parameter")
def state_dict_loaded(world):
    world.model.load_state_dict({n: t * 0.9 if t.is_floating_point() else t for n, t in world.model.state_dict().items()})


@mutation("parameter")
def state_dict_assigned(world):
    world.model.load_state_dict({n: t.clone() * 0.9 if t.is_floating_point() else t.clone() for n, t in world.model.state_dict().items()}, assign=True)


@mutation("parameter", lambda world: isinstance(world.model, models.Transformer))
def weights_tied(world):
    world.model.last.weight = world.model.words.weight


@mutation("parameter")
def gradient_left_over(world):
    _first(world).grad = torch.full_like(_first(world), 0.01)


# ---- Optimizers

@mutation("optimizer")
def learning_rate(world):
    for group in world.optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].mul_(0.5)
        else:
            group["lr"] *= 0.5


@mutation("optimizer")
def learning_rate_by_schedule(world):
    scheduler = torch.optim.lr_scheduler.StepLR(world.optimizer, 1, gamma=0.5)
    world.after_step.append(scheduler.step)


@mutation("optimizer", lambda world: "weight_decay" in world.optimizer.param_groups[0])
def weight_decay(world):
    world.optimizer.param_groups[0]["weight_decay"] = 0.2


@mutation("optimizer", lambda world: "maximize" in world.optimizer.param_groups[0])
def maximize(world):
    group = world.optimizer.param_groups[0]
    group["maximize"] = not group["maximize"]


@mutation("optimizer", lambda world: "betas" in world.optimizer.param_groups[0])
def betas(world):
    for group in world.optimizer.param_groups:
        group["betas"] = (0.5, 0.6)


@mutation("optimizer", lambda world: "momentum" in world.optimizer.param_groups[0])
def momentum(world):
    for group in world.optimizer.param_groups:
        group["momentum"] = 0.5


@mutation("optimizer", lambda world: "nesterov" in world.optimizer.param_groups[0] and world.optimizer.param_groups[0]["momentum"] > 0
          and world.optimizer.param_groups[0]["dampening"] == 0)
def nesterov(world):
    for group in world.optimizer.param_groups:
        group["nesterov"] = not group["nesterov"]


@mutation("optimizer", lambda world: "foreach" in world.optimizer.param_groups[0] and not world.optimizer.param_groups[0].get("fused"))
def foreach(world):
    for group in world.optimizer.param_groups:
        group["foreach"] = not group["foreach"]


@mutation("optimizer", lambda world: sum(len(g["params"]) for g in world.optimizer.param_groups) > 1)
def parameter_removed(world):
    group = world.optimizer.param_groups[0]
    group["params"] = group["params"][1:] or group["params"]


@mutation("optimizer", lambda world: len(world.optimizer.param_groups) > 1)
def parameter_moved_between_groups(world):
    first, second = world.optimizer.param_groups[:2]
    second["params"].append(first["params"].pop())


@mutation("optimizer")
def group_added(world):
    extra = nn.Parameter(torch.ones(3))
    world.extra["added"] = extra
    world.optimizer.add_param_group({"params": [extra]})


@mutation("optimizer", lambda world: isinstance(getattr(world.model, "last", None), nn.Linear))
def bias_taken_out_and_back(world):
    bias = world.model.last.bias
    for group in world.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if p is not bias]
    if bias is not None and not any(group["params"] == [] for group in world.optimizer.param_groups):
        world.optimizer.add_param_group({"params": [bias]})


@mutation("optimizer")
def pre_hook_of_step(world):
    world.optimizer.register_step_pre_hook(lambda optimizer, args, named: _scale_gradients(optimizer))


def _scale_gradients(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.mul_(0.5)


@mutation("optimizer")
def post_hook_of_step(world):
    def halve(optimizer, args, named):
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].mul_(0.5)

    world.optimizer.register_step_post_hook(halve)


@mutation("optimizer", ways=ALL_WAYS - {"compile"})
def step_patched(world):
    step = world.optimizer.step

    def patched(*args, **named):
        _scale_gradients(world.optimizer)
        return step(*args, **named)

    world.optimizer.step = patched


@mutation("optimizer")
def state_cleared(world):
    world.optimizer.state.clear()


@mutation("optimizer")
def state_in_place(world):
    for state in world.optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                value.mul_(0.5)


@mutation("optimizer")
def state_loaded(world):
    world.optimizer.load_state_dict(copy.deepcopy(world.optimizer.state_dict()))


@mutation("optimizer")
def count_of_steps(world):
    for state in world.optimizer.state.values():
        if isinstance(state.get("step"), torch.Tensor):
            state["step"].add_(5)


# ---- Batches

@mutation("batch")
def smaller_batch(world):
    world.of_batch = lambda batch: tuple(t[: t.shape[0] - 1] for t in batch)


@mutation("batch")
def strides(world):
    world.of_batch = lambda batch: (batch[0].transpose(0, 1).contiguous().transpose(0, 1), *batch[1:])


@mutation("batch", lambda world: not _modules(world, nn.Embedding))
def expanded_input(world):
    world.of_batch = lambda batch: (batch[0][:1].expand(batch[0].shape), *batch[1:])


@mutation("batch", lambda world: not _modules(world, nn.Embedding))
def negative_bit(world):
    world.of_batch = lambda batch: (torch._neg_view(batch[0]), *batch[1:])


@mutation("batch", lambda world: isinstance(world.model, models.ComplexWeights))
def conjugate_bit(world):
    world.of_batch = lambda batch: (torch.complex(batch[0], batch[0]).conj(), *batch[1:])


@mutation("batch", lambda world: not _modules(world, nn.Embedding))
def input_that_requires_gradients(world):
    def of_batch(batch):
        x = batch[0].clone().requires_grad_()
        world.extra[f"input {len(world.extra)}"] = x
        return x, *batch[1:]

    world.of_batch = of_batch


@mutation("batch", lambda world: not _modules(world, nn.Embedding))
def input_that_another_model_made(world):
    torch.manual_seed(world.seed)
    other = nn.Parameter(torch.ones(1))
    world.extra["other"] = other
    world.of_batch = lambda batch: (batch[0] * other.to(batch[0].dtype), *batch[1:])


@mutation("batch", lambda world: not _modules(world, nn.Embedding))
def part_of_a_larger_tensor(world):
    def of_batch(batch):
        whole = torch.zeros(batch[0].shape[0] + 3, *batch[0].shape[1:], dtype=batch[0].dtype)
        whole[2:-1] = batch[0]
        return whole[2:-1], *batch[1:]

    world.of_batch = of_batch


# ---- Random state

@mutation("random", ways=ALL_WAYS - {"shared"})
def seed(world):
    torch.manual_seed(world.seed + 7)


@mutation("random", ways=ALL_WAYS - {"shared"})
def draws(world):
    torch.rand(3)
    random.random()
    numpy.random.rand()


# ---- Contexts around one step

def _context(name: str) -> Callable[[World], object]:
    def change(world: World) -> None:
        world.around.append(name)

    change.__name__ = "within_" + name.replace(" ", "_").replace(",", "")
    return change


for _name in ("autocast", "deterministic", "without mkldnn", "sdpa by matmuls", "double by default", "saved tensors kept"):
    mutation("context")(_context(_name))
