"""SGD: momentum, Nesterov's variant, dampening, weight decay."""

import torch

from .calls import decayed

OPTIMIZERS = (torch.optim.SGD,)


def structure(group):
    return group["weight_decay"] != 0, group["momentum"] != 0, group["nesterov"], group["maximize"]


def states(group, _parameter):
    # torch starts the momentum with a copy of the first gradient. -0.0 + g is g for every g, zeros' signs included.
    return {"momentum_buffer": (None, -0.0)} if group["momentum"] != 0 else {}


def scalars(group, step):
    return {
        "lr": group["lr"],
        "minus_lr": -group["lr"],
        "weight_decay": group["weight_decay"],
        "momentum": group["momentum"],
        "gradient_share": 1 - group["dampening"] if step > 1 else 1.0,  # the first gradient is not dampened
    }


def taken(state):
    """torch counts no steps here; only the first differs from the others."""
    return 1 if state.get("momentum_buffer") is not None else 0


def one(aten, group, parameter, gradient, state, s):
    if group["maximize"]:
        gradient = aten.neg.default(gradient)
    if group["weight_decay"] != 0:
        gradient = aten.add.Tensor(gradient, parameter, alpha=s.weight_decay)
    if group["momentum"] != 0:
        momentum = state["momentum_buffer"]
        aten.mul_.Tensor(momentum, s.momentum)
        aten.add_.Tensor(momentum, gradient, alpha=s.gradient_share)
        gradient = aten.add.Tensor(gradient, momentum, alpha=s.momentum) if group["nesterov"] else momentum
    aten.add_.Tensor(parameter, gradient, alpha=s.minus_lr)


def many(aten, group, parameters, gradients, states, s):
    gradients = decayed(aten, group, parameters, gradients, s)
    if group["momentum"] != 0:
        momenta = states["momentum_buffer"]
        aten._foreach_mul_.Scalar(momenta, s.momentum)
        aten._foreach_add_.List(momenta, gradients, alpha=s.gradient_share)
        if group["nesterov"]:
            aten._foreach_add_.List(gradients, momenta, alpha=s.momentum)  # torch changes the gradients themselves
        else:
            gradients = momenta
    aten._foreach_add_.List(parameters, gradients, alpha=s.minus_lr)
