"""Adagrad, with its decaying learning rate."""

import torch

from .calls import decayed

OPTIMIZERS = (torch.optim.Adagrad,)


def structure(group):
    return group["weight_decay"] != 0, group["maximize"]


def states(group, _parameter):
    return {"sum": (None, group["initial_accumulator_value"])}


def scalars(group, step):
    return {
        "lr": group["lr"],
        "weight_decay": group["weight_decay"],
        "eps": group["eps"],
        "minus_step_size": -(group["lr"] / (1 + (float(step) - 1) * group["lr_decay"])),
    }


def one(aten, group, parameter, gradient, state, s):
    if group["maximize"]:
        gradient = aten.neg.default(gradient)
    if group["weight_decay"] != 0:
        gradient = aten.add.Tensor(gradient, parameter, alpha=s.weight_decay)
    aten.addcmul_.default(state["sum"], gradient, gradient, value=1)
    divisor = aten.sqrt.default(state["sum"])
    aten.add_.Tensor(divisor, s.eps)
    aten.addcdiv_.default(parameter, gradient, divisor, value=s.minus_step_size)


def many(aten, group, parameters, gradients, states, s):
    own = group["maximize"] or group["weight_decay"] != 0  # the list of gradients may be changed in place
    gradients = decayed(aten, group, parameters, gradients, s)
    aten._foreach_addcmul_.Scalar(states["sum"], gradients, gradients, 1)
    divisors = aten._foreach_sqrt.default(states["sum"])
    aten._foreach_add_.Scalar(divisors, s.eps)
    step_sizes = [s.minus_step_size] * len(divisors)
    if own:
        aten._foreach_mul_.ScalarList(gradients, step_sizes)
    else:
        gradients = aten._foreach_mul.ScalarList(gradients, step_sizes)
    aten._foreach_addcdiv_.Scalar(parameters, gradients, divisors)
