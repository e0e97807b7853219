"""Adam and AdamW, with or without the running maximum (amsgrad)."""

import torch

OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW)


def structure(group):
    return group["weight_decay"] != 0, group.get("decoupled_weight_decay", False), group["amsgrad"], group["maximize"]


def states(group, _parameter):
    names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
    return {name: (None, 0.0) for name in names}


def scalars(group, step):
    beta1, beta2 = group["betas"]
    return {
        "lr": group["lr"],
        "weight_decay": group["weight_decay"],
        "kept": 1 - group["lr"] * group["weight_decay"],
        "gradient_share": 1 - beta1,
        "beta2": beta2,
        "square_share": 1 - beta2,
        "eps": group["eps"],
        "square_correction": (1 - beta2 ** float(step)) ** 0.5,
        "minus_step_size": -(group["lr"] / (1 - beta1 ** float(step))),
    }


def one(aten, group, parameter, gradient, state, s):
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    if group["maximize"]:
        gradient = aten.neg.default(gradient)
    if group["weight_decay"] != 0:
        if group.get("decoupled_weight_decay", False):
            aten.mul_.Tensor(parameter, s.kept)
        else:
            gradient = aten.add.Tensor(gradient, parameter, alpha=s.weight_decay)
    aten.lerp_.Scalar(mean, gradient, s.gradient_share)
    aten.mul_.Tensor(square, s.beta2)
    aten.addcmul_.default(square, gradient, gradient, value=s.square_share)
    if group["amsgrad"]:
        largest = state["max_exp_avg_sq"]
        aten.maximum.out(largest, square, out=largest)
        square = largest
    divisor = aten.div.Tensor(aten.sqrt.default(square), s.square_correction)
    aten.add_.Tensor(divisor, s.eps)
    aten.addcdiv_.default(parameter, mean, divisor, value=s.minus_step_size)


def many(aten, group, parameters, gradients, states, s):
    means, squares = states["exp_avg"], states["exp_avg_sq"]
    if group["maximize"]:
        gradients = aten._foreach_neg.default(gradients)
    if group["weight_decay"] != 0:
        if group.get("decoupled_weight_decay", False):
            aten._foreach_mul_.Scalar(parameters, s.kept)
        elif group["maximize"]:  # the negated gradients are ours to change
            aten._foreach_add_.List(gradients, parameters, alpha=s.weight_decay)
        else:
            gradients = aten._foreach_add.List(gradients, parameters, alpha=s.weight_decay)
    aten._foreach_lerp_.Scalar(means, gradients, s.gradient_share)
    aten._foreach_mul_.Scalar(squares, s.beta2)
    aten._foreach_addcmul_.Scalar(squares, gradients, gradients, s.square_share)
    if group["amsgrad"]:
        largest = states["max_exp_avg_sq"]
        aten._foreach_maximum_.List(largest, squares)
        squares = largest
    divisors = aten._foreach_sqrt.default(squares)
    aten._foreach_div_.ScalarList(divisors, [s.square_correction] * len(divisors))
    aten._foreach_add_.Scalar(divisors, s.eps)
    aten._foreach_addcdiv_.ScalarList(parameters, means, divisors, [s.minus_step_size] * len(divisors))
