"""Optimizers of the oracle, by name: all classes of torch.optim that the CPU has, with their flags, and with groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn, optim

Made = Callable[[nn.Module], optim.Optimizer]


def _of(kind: type[optim.Optimizer], **options: Any) -> Made:
    return lambda model: kind(_real(model) if kind in _ONLY_REAL else model.parameters(), **options)


def _grouped(kind: type[optim.Optimizer], **options: Any) -> Made:
    """Vectors and matrices in groups of their own, as for weight decay."""

    def make(model: nn.Module) -> optim.Optimizer:
        each = list(model.parameters())
        matrices, vectors = [p for p in each if p.dim() > 1], [p for p in each if p.dim() <= 1]
        groups = [{"params": matrices, "lr": 0.02}] + ([{"params": vectors, "weight_decay": 0.0}] if vectors else [])
        return kind(groups, **options)

    return make


def _real(model: nn.Module) -> Iterable[nn.Parameter]:
    return [p for p in model.parameters() if not p.is_complex()]


_ONLY_REAL = {optim.Adafactor}

OPTIMIZERS: dict[str, Made] = {
    "sgd": _of(optim.SGD, lr=0.05),
    "momentum": _of(optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": _of(optim.SGD, lr=0.05, momentum=0.9, nesterov=True, foreach=False),
    "damped, maximizing": _of(optim.SGD, lr=0.001, momentum=0.5, dampening=0.1, maximize=True),
    "sgd in groups": _grouped(optim.SGD, lr=0.05, momentum=0.9),
    "sgd, lr a tensor": lambda model: optim.SGD(model.parameters(), lr=torch.tensor(0.05)),
    "adam": _of(optim.Adam, lr=0.01),
    "adam, amsgrad": _of(optim.Adam, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adam, fused": lambda model: optim.Adam(_real(model), lr=0.01, fused=True),
    "adam, maximizing": _of(optim.Adam, lr=0.001, maximize=True, foreach=True),
    "adam in groups": _grouped(optim.Adam, lr=0.01),
    "adamw": _of(optim.AdamW, lr=0.01, weight_decay=0.1),
    "adamw, one by one": _of(optim.AdamW, lr=0.01, foreach=False),
    "rmsprop": _of(optim.RMSprop, lr=0.01),
    "rmsprop, centred": _of(optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    "adagrad": _of(optim.Adagrad, lr=0.05, lr_decay=0.01),
    "adafactor": _of(optim.Adafactor, lr=0.02),
    "adadelta": _of(optim.Adadelta),
    "adamax": _of(optim.Adamax, lr=0.01),
    "nadam": _of(optim.NAdam, lr=0.01),
    "radam": _of(optim.RAdam, lr=0.01),
    "asgd": _of(optim.ASGD, lr=0.02),
    "rprop": _of(optim.Rprop, lr=0.01),
}
# Those that most programs use come more often.
COMMON = ("sgd", "momentum", "adam", "adamw", "adam in groups", "sgd in groups")
