"""What becomes of gradients between backward and update: added up over several batches, clipped, changed by the user's
function. All of it is recorded as part of the update, so a step that fails has not begun with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..capture.optimizers import PlainUpdate
from ..capture.optimizers.calls import Calls

if TYPE_CHECKING:
    from ..capture.optimizers import Update

Hook = Callable[[list[torch.Tensor]], object]  # of the parameters, whose gradients it may read and change

TOTAL = "accumulated"  # state of ours: the sum of a parameter's gradients so far


class Gradients:
    """Takes the place of an optimizer's Update in a capture. `adds`: the gradients are added to their totals;
    `applies`: the update follows, and then the totals begin anew."""

    def __init__(self, update: Update | PlainUpdate, adds: bool, applies: bool, hook: Hook | None) -> None:
        self._update, self._adds, self._applies, self._hook = update, adds, applies, hook
        self.name: str = update.name

    def record(self, recorder: Any, tracing: Any, parameters: Any, declare_state: Any) -> None:
        aten, totals = Calls(recorder, tracing), list[torch.Tensor]()
        recorder.layer = lambda: ""
        updated = [(fake, name) for _, fake, name in parameters.values() if fake.grad is not None]
        if self._adds:
            for fake, name in updated:
                # -0.0 + g is g for every g, zeros' signs included: as torch, which keeps the first gradient as it is.
                total = torch.empty_like(fake.grad)
                declare_state(total, f"{TOTAL}.{name}", None, -0.0)
                aten.add_.Tensor(total, fake.grad)
                fake.grad = total
                totals.append(total)
        if not self._applies:
            return
        if self._hook is not None:
            with tracing:
                self._hook([fake for fake, _ in updated])
        if self.plain is not None and totals:  # the totals themselves begin anew
            for fake, _ in updated:
                fake.grad = aten.clone.default(fake.grad)
        self._update.record(recorder, tracing, parameters, declare_state)
        recorder.layer = lambda: ""
        for total in totals:
            aten.fill_.Scalar(total, -0.0)

    @property
    def plain(self) -> PlainUpdate | None:
        """Where PyTorch's own optimizer.step() comes behind the step."""
        return self._update if self._applies and isinstance(self._update, PlainUpdate) else None

    def scalar_values(self) -> list[float]:
        return self._update.scalar_values() if self._applies else []

    def still_fits(self) -> bool:
        return self._update.still_fits()

    def counted(self) -> list[torch.Tensor]:
        return self._update.counted() if self._applies else []


def hook_of(clip_grad_norm: float | None, clip_grad_value: float | None, on_gradients: Hook | None) -> Hook | None:
    """One function of the parameters, or None."""
    hooks: list[Hook] = []
    for name, limit in (("clip_grad_norm", clip_grad_norm), ("clip_grad_value", clip_grad_value)):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float))):
            raise ValueError(f"{name} {limit!r}: expected a number, or None")
    if on_gradients is not None and not callable(on_gradients):
        raise ValueError(f"on_gradients {on_gradients!r}: expected a function of the list of parameters, or None")
    if on_gradients is not None:
        hooks.append(on_gradients)
    if clip_grad_value is not None:
        hooks.append(lambda parameters: torch.nn.utils.clip_grad_value_(parameters, clip_grad_value))
    if clip_grad_norm is not None:
        hooks.append(lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, clip_grad_norm))
    if not hooks:
        return None

    def run(parameters: list[torch.Tensor]) -> None:
        for hook in hooks:
            hook(parameters)

    return run
