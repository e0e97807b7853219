"""The user's tensors of a captured step: which of them each storage of the graph is, now."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import _get_scalar_dtype

from .gradients import TOTAL, Gradients

if TYPE_CHECKING:
    from .. import native
    from ..capture.inputs import Source
    from ..capture.step import CapturedStep


class StateChanged(Exception):
    """A tensor is no longer of the form that it had when the step was captured."""


class State:
    """Parameters, buffers, constants and optimizer state, and how to find them anew before each step: users may put
    others in their place, as load_state_dict does."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, totals: dict[Any, torch.Tensor],
                 captured: CapturedStep, device: str = "cpu") -> None:
        """`totals`: sums of gradients, by parameter; shared by the steps for batches of all forms."""
        self._optimizer, self._totals, self._device = optimizer, totals, device
        self._attached: dict[int, int] = {}  # storage -> address of the C++ object
        self._kept: dict[int, torch.UntypedStorage] = {}  # storage -> its memory, so that the address stays its own
        self._finders: list[tuple[int, Callable[[], torch.Tensor | None]]] = []  # (storage, function that gives the tensor now)
        self._new: dict[int, tuple[Any, str, torch.Tensor]] = {}  # storage -> (parameter, name, tensor): state that the optimizer does not have yet
        parameters = dict(model.named_parameters(remove_duplicate=False))
        self.names_by_address: dict[int, str] = {}  # of the storages that the engine knows
        self._remade: list[tuple[torch.Tensor, torch.Tensor]] = []  # constants that the step writes to and the model's code makes anew, and copies
        self._written = {captured.graph["tensors"][t]["storage"] for op in captured.graph["ops"] for t in op.get("mutated", ())}
        self._forms = {t["storage"]: t for t in reversed(captured.graph["tensors"]) if "name" in t}
        for storage, source in captured.sources.items():
            if source.kind == "optimizer_state":
                state_name, _, name = source.name.partition(".")
                if state_name == TOTAL:
                    self._find_total(storage, parameters[name], source.value)
                else:
                    self._find_state(storage, parameters[name], state_name, source.value)
            elif source.kind == "parameter" or (source.kind == "buffer" and not source.name.startswith("constant.")):
                self._find_in(model, storage, source)
            elif source.kind == "buffer":
                self._find_constant(storage, source.tensor, source.fresh)

    def _find_constant(self, storage: int, tensor: Any, fresh: bool) -> None:
        constant = tensor.to(self._device)
        if fresh and storage in self._written:
            constant = constant.clone()
            self._remade.append((constant, constant.clone()))
        self._finders.append((storage, lambda: constant))

    def _find_in(self, model: torch.nn.Module, storage: int, source: Source) -> None:
        path, _, leaf = source.name.rpartition(".")
        module = model.get_submodule(path)
        table = module._parameters if source.kind == "parameter" else module._buffers
        self._finders.append((storage, lambda: table.get(leaf)))

    def _find_state(self, storage: int, parameter: Any, name: str, value: float | None) -> None:
        def find() -> torch.Tensor:
            present = self._optimizer.state.get(parameter, {}).get(name)
            if present is not None:
                self._new.pop(storage, None)
                return present
            if storage not in self._new:
                self._new[storage] = (parameter, name, self._filled(storage, value))
            return self._new[storage][2]

        self._finders.append((storage, find))

    def _find_total(self, storage: int, parameter: Any, value: float | None) -> None:
        def find() -> torch.Tensor:
            if parameter not in self._totals:
                self._totals[parameter] = self._filled(storage, value)
            return self._totals[parameter]

        self._finders.append((storage, find))

    def _filled(self, storage: int, value: float | None) -> torch.Tensor:
        form = self._forms[storage]
        stride = form.get("stride") or torch.empty(form["shape"], device="meta").stride()
        return torch.empty_strided(form["shape"], stride, dtype=getattr(torch, form["dtype"]), device=self._device).fill_(value)

    def attach(self, engine: native.Engine) -> None:
        """Tells the engine of tensors that it does not know."""
        moved_out = False
        for storage, find in self._finders:
            tensor = find()
            if tensor is None:
                raise StateChanged
            real, form = tensor.untyped_storage(), self._forms.get(storage)
            if self._attached.get(storage) == real._cdata:
                if form is not None and not _is_of(tensor, form):
                    raise StateChanged
                continue
            if real._cdata in self.names_by_address:  # tensors that were apart share memory now
                raise StateChanged
            if self._device == "cpu" and real.is_shared():
                raise ValueError(f"{form['name'] if form else 'a tensor'} is in memory that processes share, and would leave it; expected memory of its own")
            if form is not None and not _is_of(tensor, form):
                raise StateChanged
            if storage in self._attached and not moved_out:  # who holds the other one finds its contents in memory of its own
                engine.move_out()
                moved_out = True
            try:
                engine.attach(storage, real._cdata)
            except ValueError as error:
                raise StateChanged from error
            self.names_by_address.pop(self._attached.get(storage, 0), None)
            self.names_by_address[real._cdata] = form["name"] if form else "a tensor of the model's"
            self._attached[storage], self._kept[storage] = real._cdata, real
        for constant, copy in self._remade:
            constant.copy_(copy)

    def step_taken(self, update: Gradients) -> None:
        """The optimizer's state is what torch's own step would have left."""
        for parameter, name, tensor in self._new.values():
            self._optimizer.state[parameter][name] = tensor
        self._new.clear()
        counts = []
        for parameter in update.counted():
            state = self._optimizer.state[parameter]
            if "step" not in state:
                state["step"] = torch.tensor(0.0, dtype=_get_scalar_dtype())
            if isinstance(state["step"], torch.Tensor):
                counts.append(state["step"])
            else:
                state["step"] += 1
        if counts:
            torch._foreach_add_(counts, 1)
        self._optimizer._opt_called = True  # what schedulers ask for


def _is_of(tensor: torch.Tensor, form: dict[str, Any]) -> bool:
    shape = tuple(form["shape"])
    stride = form.get("stride")
    return (tensor.shape == shape and (tensor.stride() == tuple(stride) if stride else tensor.stride() == _contiguous_strides(shape))
            and tensor.storage_offset() == form.get("offset", 0) and tensor.dtype is _dtype(form["dtype"]) and not tensor.is_conj() and not tensor.is_neg())


@functools.cache
def _dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


@functools.cache
def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()
