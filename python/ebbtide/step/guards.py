"""The guards of a captured step: all that decided which ops it has, compared before it runs again.

What the user's Python code read while it was captured (docs/guarantees.md) is noted by ebbtide.capture.watch; tensors whose values decided
a branch are compared by value. Where a guard does not hold the step is captured anew; plans whose guards may hold again are kept.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch

from ..capture.step import CapturedStep
from ..capture.watch.guards import Guards
from ..capture.watch.watch import Effect, Watch


class StepGuards:
    """`hold` is asked before each step; `effects` are what the step leaves in Python's objects."""

    def __init__(self, guards: Guards, captured: CapturedStep, effects: Sequence[Effect]) -> None:
        self.guards, self._asked, self.effects = guards, captured.asked, effects

    def __len__(self) -> int:
        return len(self.guards) + len(self._asked)

    def hold(self) -> bool:
        return self.guards.hold() and all(_same_values(*pair) for pair in self._asked)

    def why(self) -> str | None:
        """What does not hold, in a few words."""
        change = self.guards.first_change()
        if change is not None:
            return str(change)
        changed = [tensor for tensor, copy in self._asked if not _same_values(tensor, copy)]
        return f"the values of a tensor of shape {tuple(changed[0].shape)}, by which the code decides, changed" if changed else None


def carry(captured: CapturedStep, guards: Guards, watch: Watch, effects: Sequence[Effect]) -> list[Effect]:
    """What each step writes itself is no reason to capture anew, where nothing depends on which value it is: a tensor in the place of another of the
    same form, as a state that is kept from batch to batch (the step reads what is there), and a count that only counts."""
    carried = []
    asked = {id(tensor) for tensor, _ in captured.asked}
    written = {captured.graph["tensors"][t]["storage"] for op in captured.graph["ops"] for t in op.get("mutated", ())}
    for effect in effects:
        counted = watch.counted(effect)
        if counted is not None and guards.carry(effect.note, effect.key, lambda value: type(value) is int):
            carried.append(counted)
            continue
        carried.append(effect._replace(new=None))  # a fake of the capture
        old, new = effect.old, effect.new
        if not isinstance(new, torch.Tensor) or type(old) is not torch.Tensor or old.requires_grad or id(old) in asked or _form(old) != _form(new):
            continue
        form, of_old = _form(old), {s: source for s, source in captured.sources.items() if source.tensor is old}
        if written & of_old.keys() or any(_refers(other.new, old) for other in effects):
            continue
        if guards.is_alone(effect.note, effect.key) and guards.carry(effect.note, effect.key, functools.partial(_is_plain, form)):
            guards.forget(old)
            for storage, source in of_old.items():  # what is there is copied in, as a batch is
                source.kind, source.carried = "input", functools.partial(_part, effect.note, effect.key)
                captured.graph["storages"][storage]["kind"] = "input"
    return carried


def _refers(value: Any, to: Any) -> bool:
    parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return value is to or any(_refers(part, to) for part in parts)


def _is_plain(form: Any, value: Any) -> bool:
    return type(value) is torch.Tensor and not value.requires_grad and bool(_form(value) == form)


def _part(note: Any, key: Any) -> Any:
    return note.now()[key]


def _form(tensor: torch.Tensor) -> Any:
    return (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device, tensor.untyped_storage().nbytes(), tensor.is_neg(),
            tensor.is_conj())


def first_difference(captured: CapturedStep, other: CapturedStep) -> str | None:
    """Where two captures are not the same step, in a few words; None: they are. Values of scalars are read anew at each step."""
    a, b = captured.graph, other.graph
    for one, two in zip(a["ops"], b["ops"]):
        if _text(one) != _text(two):
            name = next(field for field in {**one, **two} if _text(one.get(field)) != _text(two.get(field)))
            return f"{one['kind']} in layer {one.get('layer') or '(none)'}: {name} was {_short(one.get(name))}, is {_short(two.get(name))}"
    for field in ("ops", "tensors", "storages", "outputs"):
        if _text(a[field]) != _text(b[field]):
            return f"{len(a[field])} {field}, then {len(b[field])}" if len(a[field]) != len(b[field]) else f"other {field}"
    if [s["name"] for s in a["scalars"]] != [s["name"] for s in b["scalars"]]:
        return "other scalars"
    for storage, source in captured.sources.items():
        now = other.sources.get(storage)
        if now is None or (now.kind, now.name, now.fresh) != (source.kind, source.name, source.fresh):
            return f"{source.name} is another tensor"
        if source.carried is not None and now.carried is not None:
            continue
        if source.kind == "optimizer_state" or source.tensor is now.tensor or (source.kind == "buffer" and not source.name.startswith("constant.")):
            continue
        if source.kind != "input" and not (source.fresh and _same_values(source.tensor, now.tensor)):
            return f"{source.name} is another tensor"
    return None


def _same_values(tensor: Any, copy: Any) -> bool:
    """To the last bit, as far as bytes tell."""
    if tensor.shape != copy.shape or tensor.dtype != copy.dtype:
        return False
    with torch.no_grad():
        a, b = tensor.detach().contiguous(), copy.detach().contiguous()
        return torch.equal(a.view(-1).view(torch.uint8), b.view(-1).view(torch.uint8)) if a.dim() and a.numel() else torch.equal(a, b)


def _text(value: Any) -> str:
    """Where Python calls 1, 1.0 and True equal, and 0.0 and -0.0, texts differ."""
    return json.dumps(value)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 80 else text[:77] + "..."
