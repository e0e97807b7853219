"""Reads the programs that Inductor writes: Python that allocates buffers and calls kernels, one line each.

A program is not run. Its lines are told to a Builder, which makes an op of each call.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
from typing import Any, Protocol

import torch

from .replay import NotFused


@dataclasses.dataclass
class Memory:
    """A storage. `number`: that of the graph being made; None: nothing has been written to it."""

    bytes: int
    number: int | None = None


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor: a form on a memory. `offset` in elements."""

    memory: Memory
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    def __hash__(self) -> int:
        return id(self)

    def like(self, shape: Any, stride: Any, offset: int) -> Value:
        return Value(self.memory, self.dtype, tuple(shape), tuple(stride), self.offset + offset)


@dataclasses.dataclass(frozen=True)
class Number:
    """A scalar of the graph, in the place of a tensor of one float64."""

    index: int


class Builder(Protocol):
    """What is told of a program's lines."""

    def kernel(self, name: str, args: list[Any]) -> None:
        """A call of a compiled kernel."""

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of one of torch's operators. Gives its results, as it does."""


def read(source: str, inputs: list[Value | Number], builder: Builder) -> list[Any]:
    """Tells `builder` of the calls of a program, and gives what it returns. Raises NotFused where there is something unexpected."""
    tree = ast.parse(source)
    call = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"), None)
    if call is None:
        raise NotFused("Inductor's program has no function call")
    reader = _Reader(inputs, builder)
    for statement in call.body:
        found = reader.statement(statement)
        if found is not None:
            return found
    raise NotFused("Inductor's program returns nothing")


_IGNORED = {"assert_size_stride", "assert_size_stride_grouped", "assert_alignment", "assert_tensor_metadata", "args.clear",
            "torch.cuda.set_device", "torch.cuda.synchronize"}
_EMPTY = {"empty_strided_cpu", "empty_strided_cuda", "empty_strided"}
_OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv}


class _Reader:
    def __init__(self, inputs: list[Value | Number], builder: Builder) -> None:
        self._inputs, self._builder = inputs, builder
        self._names: dict[str, Any] = {}

    def statement(self, node: ast.stmt) -> list[Any] | None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id="args")):
                self._names.update({name.id: value for name, value in zip(names, self._inputs)})  # type: ignore[attr-defined]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="get_raw_stream"))):
                self._names[name] = _STREAM
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[name] = self._value(value)
            case ast.Expr(value=ast.Call() as call):
                if _spelled(call.func) not in _IGNORED:
                    self._call(call)
            case ast.With(body=body):
                for inner in body:
                    found = self.statement(inner)
                    if found is not None:
                        return found
            case ast.Return(value=ast.Tuple(elts=results)):
                return [self._value(result) for result in results]
            case ast.Delete() | ast.Pass():
                pass
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise NotFused(f"Inductor's program has a line of another kind: {ast.unparse(node)[:120]}")
        return None

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self._value(part) for part in parts]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._value(left), self._value(right))
            case ast.Subscript(value=of, slice=ast.Constant(value=int(place))):
                return self._value(of)[place]
            case ast.Call():
                return self._call(node)
            case ast.Name(id=name) if name in ("inf", "nan"):
                return float(name)
            case ast.Attribute():
                spelled = _spelled(node)
                if spelled.startswith("torch.") and hasattr(torch, spelled[6:]):
                    return getattr(torch, spelled[6:])
        raise NotFused(f"Inductor's program has an expression of another kind: {ast.unparse(node)[:120]}")

    def _call(self, node: ast.Call) -> Any:
        spelled = _spelled(node.func)
        if spelled == "device":
            return torch.device(*[self._value(a) for a in node.args], **{k.arg: self._value(k.value) for k in node.keywords if k.arg})
        args = [self._value(arg) for arg in node.args]
        kwargs = {keyword.arg: self._value(keyword.value) for keyword in node.keywords if keyword.arg and keyword.arg != "stream"}
        if spelled in _EMPTY:
            shape, stride, dtype = args[:3]
            return Value(Memory(_reach(shape, stride) * dtype.itemsize), dtype, tuple(shape), tuple(stride))
        if spelled == "copy_if_misaligned":  # storages lie at multiples of 512 bytes; others are refused (build.py)
            return args[0]
        if spelled == "reinterpret_tensor":
            return args[0].like(*args[1:])
        if "." not in spelled:
            self._builder.kernel(spelled, args)
            return None
        if spelled.endswith(".run"):
            self._builder.kernel(spelled[:-4], [arg for arg in args if arg is not _STREAM])
            return None
        return self._builder.call(_function(spelled), args, kwargs)


_STREAM = object()


def _spelled(node: ast.expr) -> str:
    """'torch.ops.aten.mm.default' of what a call names; empty: it is something else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=of, attr=name):
            return f"{_spelled(of)}.{name}"
    return ""


def _function(spelled: str) -> Any:
    """The operator, or the packet of one."""
    for prefix, of in (("extern_kernels.", "aten."), ("torch.ops.", ""), ("aten.", "aten."), ("inductor_ops.", "inductor."), ("prims.", "prims.")):
        if spelled.startswith(prefix):
            found: Any = torch.ops
            for part in (of + spelled[len(prefix):]).split("."):
                found = getattr(found, part, None)
                if found is None:
                    break
            if found is not None:
                return found
    raise NotFused(f"Inductor's program calls {spelled}")


def _reach(shape: Any, stride: Any) -> int:
    """Elements from the first to the last."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
