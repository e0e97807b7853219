"""Adafactor: second moments by row and column, steps relative to the parameter's size.

torch reads two norms per parameter to the host and goes on with Python numbers. The same arithmetic is done here in
tensors of one float64, and the last call reads its number when it runs.
"""

import torch

OPTIMIZERS = (torch.optim.Adafactor,)
MANY_BY_DEFAULT = False  # torch's default is one parameter at a time on every device


def structure(group):
    return group["weight_decay"] != 0, group["maximize"]


def states(_group, parameter):
    shape = list(parameter.shape)
    if len(shape) > 1:
        return {"row_var": ([*shape[:-1], 1], 0.0), "col_var": ([*shape[:-2], 1, shape[-1]], 0.0)}
    return {"variance": (None, 0.0)}


def scalars(group, step):
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = torch.finfo(group["params"][0].dtype).eps
    return {
        "lr": group["lr"],
        "kept": 1 - group["lr"] * group["weight_decay"],
        "gradient_share": float(step) ** group["beta2_decay"],
        "relative_step": min(group["lr"], 1 / (float(step) ** 0.5)),
        "eps1": eps1,
        "eps1_squared": eps1 * eps1,
        "eps2": eps2,
        "d": group["d"],
    }


def one(aten, group, parameter, gradient, state, s):
    if group["maximize"]:
        gradient = aten.neg.default(gradient)

    def number(value):
        return aten.full.default([], value, dtype=torch.float64, device=parameter.device)

    def root_mean_square(tensor, divisor):
        norm = aten.linalg_vector_norm.default(tensor, 2, list(range(tensor.dim())))
        return aten.div.Tensor(aten._to_copy.default(norm, dtype=torch.float64), divisor)

    size = root_mean_square(parameter, number(parameter.numel() ** 0.5))
    step = aten.mul.Tensor(aten.fmax.default(size, number(s.eps2)), s.relative_step)
    if group["weight_decay"] != 0:
        aten.mul_.Tensor(parameter, s.kept)
    if gradient.dim() > 1:
        for name, dim in (("row_var", -1), ("col_var", -2)):
            mean = aten.linalg_vector_norm.default(gradient, 2, [dim], True)
            aten.square_.default(mean)
            aten.div_.Tensor(mean, gradient.size(dim))
            aten.lerp_.Scalar(state[name], mean, s.gradient_share)
        update = aten.matmul.default(state["row_var"], state["col_var"])
        mean = aten.mean.dim(state["row_var"], [-2], True)
        aten.clamp_.default(mean, s.eps1)
        aten.div_.Tensor(update, mean)
    else:
        squared = aten.mul.Tensor(gradient, gradient)
        aten.lerp_.Scalar(state["variance"], squared, s.gradient_share)
        update = aten.clone.default(state["variance"])
    aten.clamp_.default(update, s.eps1_squared)
    aten.rsqrt_.default(update)
    aten.mul_.Tensor(update, gradient)
    size = root_mean_square(update, aten.mul.Tensor(number(update.numel() ** 0.5), s.d))
    step = aten.div.Tensor(aten.neg.default(step), aten.fmax.default(size, number(1.0)))
    aten.add_.Tensor(parameter, update, alpha=step)
