"""RMSprop, centred or not, with or without momentum."""

import torch

from .calls import decayed

OPTIMIZERS = (torch.optim.RMSprop,)


def structure(group):
    return group["weight_decay"] != 0, group["momentum"] > 0, group["centered"], group["maximize"]


def states(group, _parameter):
    names = ["square_avg"]
    if group["momentum"] > 0:
        names.append("momentum_buffer")
    if group["centered"]:
        names.append("grad_avg")
    return {name: (None, 0.0) for name in names}


def scalars(group, _step):
    return {
        "lr": group["lr"],
        "minus_lr": -group["lr"],
        "weight_decay": group["weight_decay"],
        "momentum": group["momentum"],
        "alpha": group["alpha"],
        "gradient_share": 1 - group["alpha"],
        "eps": group["eps"],
    }


def one(aten, group, parameter, gradient, state, s):
    square = state["square_avg"]
    if group["maximize"]:
        gradient = aten.neg.default(gradient)
    if group["weight_decay"] != 0:
        gradient = aten.add.Tensor(gradient, parameter, alpha=s.weight_decay)
    aten.mul_.Tensor(square, s.alpha)
    aten.addcmul_.default(square, gradient, gradient, value=s.gradient_share)
    if group["centered"]:
        mean = state["grad_avg"]
        aten.lerp_.Scalar(mean, gradient, s.gradient_share)
        divisor = aten.addcmul.default(square, mean, mean, value=-1)
        aten.sqrt_.default(divisor)
    else:
        divisor = aten.sqrt.default(square)
    aten.add_.Tensor(divisor, s.eps)
    if group["momentum"] > 0:
        momentum = state["momentum_buffer"]
        aten.mul_.Tensor(momentum, s.momentum)
        aten.addcdiv_.default(momentum, gradient, divisor)
        aten.add_.Tensor(parameter, momentum, alpha=s.minus_lr)
    else:
        aten.addcdiv_.default(parameter, gradient, divisor, value=s.minus_lr)


def many(aten, group, parameters, gradients, states, s):
    squares = states["square_avg"]
    gradients = decayed(aten, group, parameters, gradients, s)
    aten._foreach_mul_.Scalar(squares, s.alpha)
    aten._foreach_addcmul_.Scalar(squares, gradients, gradients, s.gradient_share)
    if group["centered"]:
        means = states["grad_avg"]
        aten._foreach_lerp_.Scalar(means, gradients, s.gradient_share)
        divisors = aten._foreach_addcmul.Scalar(squares, means, means, -1)
        aten._foreach_sqrt_.default(divisors)
    else:
        divisors = aten._foreach_sqrt.default(squares)
    aten._foreach_add_.Scalar(divisors, s.eps)
    if group["momentum"] > 0:
        momenta = states["momentum_buffer"]
        aten._foreach_mul_.Scalar(momenta, s.momentum)
        aten._foreach_addcdiv_.Scalar(momenta, gradients, divisors)
        aten._foreach_add_.List(parameters, momenta, alpha=s.minus_lr)
    else:
        aten._foreach_addcdiv_.Scalar(parameters, gradients, divisors, s.minus_lr)
