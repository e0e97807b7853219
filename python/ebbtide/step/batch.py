"""The batch of a step: what may be in it, and what of it a plan is for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..capture.watch.notes import is_atom
from ..errors import CaptureError

if TYPE_CHECKING:
    from ..capture.inputs import Source

OF_VIEWS = "which kernels read in their own ways; expected x.resolve_conj().resolve_neg()"
Leaves = Sequence[tuple[Any, Any]]  # of a batch: (path, value), as torch's tree_flatten_with_path gives them


def name_of(path: Sequence[Any]) -> str:
    """'batch.0', 'batch.labels'."""
    return ".".join(["batch", *(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)])


def form_of(leaves: Leaves) -> Hashable:
    """Equal for batches that one capture serves. Numbers are told apart by type and bits: 1, True and 1.0 are three."""
    forms: list[Hashable] = []
    for path, leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            _check(path, leaf)
            forms.append((tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad, leaf.is_neg()))
        elif is_atom(leaf):
            forms.append((type(leaf), repr(leaf)))
        else:
            hint = "torch.from_numpy(x)" if type(leaf).__module__ == "numpy" else "tensors, numbers, strings and None, in tuples, lists and dicts"
            raise TypeError(f"{name_of(path)} is a {type(leaf).__module__}.{type(leaf).__qualname__}; expected {hint}")
    return tuple(forms)


def check_memory(names: Sequence[str], tensors: Sequence[torch.Tensor], device: str) -> None:
    """Before a step runs: the tensors have bytes that it can read."""
    for name, tensor in zip(names, tensors):
        if isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
            raise ValueError(f"{name} is a {'fake' if isinstance(tensor, FakeTensor) else 'meta'} tensor, which has no memory; expected one with values")
        if tensor.device.type != "cpu" and str(tensor.device) != device:
            raise ValueError(f"{name} is on {tensor.device}; expected {device}")


def check_shared(names: Sequence[str], tensors: Sequence[torch.Tensor], changed: bool, state: Mapping[int, str]) -> None:
    """No tensor of the batch may share memory with the model's state (names by address); nor two with each other, where the step
    changes some of them."""
    storages: dict[int, str] = {}
    for name, tensor in zip(names, tensors):
        address = tensor.untyped_storage()._cdata
        if address in state:
            raise CaptureError(f"{name} shares memory with {state[address]}; expected a copy, as x.clone() makes it")
        other = storages.setdefault(address, name)
        if changed and other != name:
            raise CaptureError(f"{name} shares memory with {other}, and the step changes its inputs in place; expected tensors of their own")


def hollow(path: Sequence[Any], leaf: Any, device: str) -> Any:
    """Of its tensors the capture needs the form alone, and not the storages that they are parts of."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.device.type not in ("cpu", "meta") and str(leaf.device) != device:
        raise ValueError(f"the batch is on {leaf.device}; expected {device}")
    stride = torch.empty_like(leaf, device="meta").stride() if leaf.is_neg() else leaf.stride()  # of what `resolved` makes of it
    return torch.empty_strided(leaf.shape, stride, dtype=leaf.dtype, device="meta", requires_grad=leaf.requires_grad)


def resolved(leaf: torch.Tensor) -> torch.Tensor:
    """As kernels that know nothing of negative views are given it."""
    return leaf.resolve_neg() if leaf.is_neg() else leaf


def check_negative(names: Sequence[str], graph: Mapping[str, Any], storages: Mapping[str, int]) -> None:
    """Of a negative view plain PyTorch resolves what each kernel is given. That is the same numbers in the same order as of the whole, as long as the
    step reads it as a whole and does not write to it."""
    tensors = graph["tensors"]
    for name in names:
        storage = storages[name]
        whole = next(math.prod(t["shape"]) for t in tensors if t.get("name") == name)
        for op in graph["ops"]:
            is_view = op["outputs"] and not op.get("mutated") and all(tensors[t]["storage"] == storage for t in op["outputs"])
            written = any(tensors[t]["storage"] == storage for t in op.get("mutated", ()))
            parts = not is_view and any(tensors[t]["storage"] == storage and math.prod(tensors[t]["shape"]) != whole for t in op["inputs"])
            if written or parts:
                raise CaptureError(f"{name} is a negative view, of which the step {'changes' if written else 'reads'} parts; expected x.resolve_neg()")


def check_sources(sources: Iterable[Source]) -> None:
    """The engine reads memory, which of these has other numbers than the tensor. Of a batch, `check_negative` and `form_of` ask."""
    for source in sources:
        if source.kind != "input" and source.tensor is not None and (source.tensor.is_conj() or source.tensor.is_neg()):
            raise CaptureError(f"{source.kind} {source.name} is a conjugate or negative view, {OF_VIEWS}")


def _check(path: Sequence[Any], leaf: torch.Tensor) -> None:
    name = name_of(path)
    if leaf.layout is not torch.strided or leaf.is_nested or leaf.is_quantized:
        kind = "nested" if leaf.is_nested else "quantized" if leaf.is_quantized else str(leaf.layout).replace("torch.", "")
        raise CaptureError(f"{name} is a {kind} tensor; expected a dense one")
    if type(leaf) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and not isinstance(leaf, FakeTensor):
        raise CaptureError(f"{name} is of class {type(leaf).__name__}; expected a plain tensor")
    if leaf.is_conj() or (leaf.is_neg() and leaf.requires_grad):
        raise CaptureError(f"{name} is a conjugate or negative view, {OF_VIEWS}")
    if any(getattr(leaf, "names", ())):  # torch before 2.15
        raise CaptureError(f"{name} has named dimensions; expected x.rename(None)")
