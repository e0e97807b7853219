"""Ops of updates with numbers that change from step to step: as functions of tensors of one float64, with eager's arithmetic.

Eager computes in the type of the tensors, in float32 where they are of a lower one, and turns numbers into that type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LOWERED = (torch.float16, torch.bfloat16)


def _add(of: Any, self: Any, other: Any, alpha: Any = 1) -> Any:
    return of(self) + of(other) * of(alpha)


def _sub(of: Any, self: Any, other: Any, alpha: Any = 1) -> Any:
    return of(self) - of(other) * of(alpha)


def _mul(of: Any, self: Any, other: Any) -> Any:
    return of(self) * of(other)


def _div(of: Any, self: Any, other: Any) -> Any:
    return of(self) / of(other)


def _lerp(of: Any, self: Any, end: Any, weight: Any) -> Any:
    start, end, weight = of(self), of(end), of(weight)
    return torch.where(weight < 0.5, start + weight * (end - start), end - (end - start) * (1 - weight))


def _addcmul(of: Any, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return of(self) + of(value) * of(tensor1) * of(tensor2)


def _addcdiv(of: Any, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return of(self) + of(value) * (of(tensor1) / of(tensor2))


_FORMULAS: dict[str, Callable[..., Any]] = {
    "add.Tensor": _add, "sub.Tensor": _sub, "mul.Tensor": _mul, "div.Tensor": _div, "lerp.Scalar": _lerp,
    "addcmul.default": _addcmul, "addcdiv.default": _addcdiv,
    "_foreach_add.List": _add, "_foreach_add.Scalar": _add, "_foreach_mul.Scalar": _mul, "_foreach_mul.ScalarList": _mul, "_foreach_div.ScalarList": _div,
    "_foreach_lerp.Scalar": _lerp, "_foreach_addcmul.Scalar": _addcmul, "_foreach_addcdiv.Scalar": _addcdiv, "_foreach_addcdiv.ScalarList": _addcdiv,
}
HAS_SCALARS = {f"aten::{name.replace('.', underscore + '.')}" for name in _FORMULAS for underscore in ("", "_")}


def with_scalars(schema: str, given: dict[str, Any]) -> Any:
    """The call of an op of HAS_SCALARS."""
    name, _, overload = schema.removeprefix("aten::").partition(".")
    formula = _FORMULAS[f"{name.removesuffix('_')}.{overload}"]
    in_place = name.endswith("_")
    if not name.startswith("_foreach"):
        return _one(formula, in_place, given)
    count = len(given["self"])
    named = {_name_of(formula, key): value for key, value in given.items()}
    return [_one(formula, in_place, {key: value[i] if isinstance(value, list) else value for key, value in named.items()}) for i in range(count)]


def _name_of(formula: Callable[..., Any], key: str) -> str:
    taken = formula.__code__.co_varnames[: formula.__code__.co_argcount]
    if key in taken:
        return key
    if key in ("scalar", "scalars"):
        return "value" if "value" in taken else "weight" if "weight" in taken else "other"
    return {"tensors1": "end", "weights": "weight"}[key]


def _one(formula: Callable[..., Any], in_place: bool, given: dict[str, Any]) -> torch.Tensor:
    self: torch.Tensor = given["self"]
    others = [v for v in given.values() if isinstance(v, torch.Tensor) and (v.dim() or v.dtype != torch.float64)]
    dtype = self.dtype if in_place else torch.result_type(self, others[-1]) if len(others) > 1 else self.dtype
    computed = torch.float32 if dtype in _LOWERED else dtype

    def of(value: Any) -> Any:
        return value.to(computed) if isinstance(value, torch.Tensor) else value

    result = formula(of, **given).to(dtype)
    return self.copy_(result) if in_place else result
