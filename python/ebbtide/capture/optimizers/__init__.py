"""Optimizer updates described in ATen calls, so that a captured step holds no learning rate as a constant.

Each file describes one of torch.optim's optimizers, in the order of the kernels that torch runs with default flags:

    OPTIMIZERS                             torch's classes
    structure(group)                       what of the hyper-parameters decides which calls are made
    states(group, parameter)               state name -> (shape, value before the first step)
    scalars(group, step)                   name -> host number at that step (the first is 1)
    one(aten, group, parameter, gradient, state, s)       one parameter (torch's default on the CPU)
    many(aten, group, parameters, gradients, states, s)   lists of them (torch's default on CUDA)

`aten` makes and records a call; `s.lr` is a scalar of the graph. Every description is checked bit by bit against
torch's own optimizer (tests/python/test_capture_optimizers.py).
"""

from .plain import PlainUpdate
from .update import SUPPORTED, Update, describe

__all__ = ["SUPPORTED", "PlainUpdate", "Update", "describe"]
