"""What comes behind the ops of a step in Python: what its code keeps, gradients of inputs, and an optimizer that PyTorch runs itself.

Graphs give tensors out for it. They are copied from the pool to memory of torch's, as much as they take, beside the budget.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..arguments import shown_bytes
from ..errors import CaptureError

if TYPE_CHECKING:
    from ..capture.optimizers import PlainUpdate
    from ..capture.step import CapturedStep
    from ..capture.watch.watch import Effect

Span = tuple[int, int, int, int]  # storage, offset, address, bytes


class Behind:
    """Of one captured step."""

    def __init__(self, captured: CapturedStep, device: str) -> None:
        self._captured, self._device = captured, device
        self._tensors: list[dict[str, Any]] = captured.graph["tensors"]
        self._storages = sorted({self._tensors[number]["storage"] for _, number in captured.kept.values()})

    def results(self) -> Results:
        """Memory for what the next step gives."""
        gradients = {number: self._empty(number) for _, number in (*self._captured.gradients, *self._captured.input_gradients)}
        kept = {storage: torch.empty(self._captured.graph["storages"][storage]["bytes"], dtype=torch.uint8, device=self._device) for storage in self._storages}
        return Results(self._tensors, gradients, kept)

    def finish(self, results: Results, effects: Sequence[Effect], model: torch.nn.Module, batch: Sequence[torch.Tensor]) -> None:
        """When the step has been taken."""
        for effect in effects:
            effect.apply(results, batch)
        update, captured = self._captured.update.plain, self._captured
        if update is None and not captured.input_gradients:
            return
        ours = {name: _parameter(model, name) for name, _ in captured.gradients}
        with _no_gradients(update, ours.values()):
            if captured.input_gradients:
                torch.autograd.backward([batch[place] for place, _ in captured.input_gradients], [results.gradients[n] for _, n in captured.input_gradients])
            gradients = dict(captured.gradients)
            for name in (*captured.accumulated, *(name for name in gradients if name not in captured.accumulated)):
                ours[name].grad = results.gradients[gradients[name]]
                with torch.no_grad():
                    for hook in list((getattr(ours[name], "_post_accumulate_grad_hooks", None) or {}).values()):
                        if hook(ours[name]) is not None:
                            raise RuntimeError("Tensor post accumulate grad hooks should return None.")  # as autograd says it
            if update is not None:
                update.optimizer.step()

    def _empty(self, number: int) -> torch.Tensor:
        form = self._tensors[number]
        stride = form.get("stride") or torch.empty(form["shape"], device="meta").stride()
        return torch.empty_strided(form["shape"], stride, dtype=getattr(torch, form["dtype"]), device=self._device)


class Results:
    """What one step has given beside its loss."""

    def __init__(self, tensors: list[dict[str, Any]], gradients: dict[int, torch.Tensor], kept: dict[int, torch.Tensor]) -> None:
        self._tensors, self.gradients, self._kept = tensors, gradients, kept

    def spans(self) -> list[Span]:
        """Where the engine writes them."""
        spans = [(storage, 0, memory.data_ptr(), memory.nbytes) for storage, memory in self._kept.items()]
        for number, tensor in self.gradients.items():
            form = self._tensors[number]
            spans.append((form["storage"], form.get("offset", 0) * tensor.itemsize, tensor.data_ptr(), span_of(tensor)))
        return spans

    def tensor(self, number: int) -> torch.Tensor:
        """One that code keeps: a new tensor, of the memory that all of its storage have in common, as in plain PyTorch."""
        form = self._tensors[number]
        memory = self._kept[form["storage"]]
        dtype = getattr(torch, form["dtype"])
        shell = torch.empty(0, dtype=dtype, device=memory.device)
        stride = form.get("stride") or torch.empty(form["shape"], device="meta").stride()
        return shell.set_(memory.untyped_storage(), form.get("offset", 0), form["shape"], stride)


def why_plain(model: torch.nn.Module, batch: Sequence[Any]) -> str:
    """Why PyTorch itself has to run the optimizer, whichever it is; "": it need not."""
    if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in batch):
        return "the batch requires gradients, which come before the update"
    return "a parameter has a hook that runs after its gradient is stored" if has_gradient_hooks(model) else ""


def has_gradient_hooks(model: torch.nn.Module) -> bool:
    """Whether a parameter has a hook that runs after its gradient is stored."""
    return any(getattr(parameter, "_post_accumulate_grad_hooks", None) for parameter in model.parameters())


def told(update: PlainUpdate, captured: CapturedStep) -> str:
    """What a user should know about it."""
    graph = captured.graph
    size = sum(graph["storages"][s]["bytes"] for s in {graph["tensors"][number]["storage"] for _, number in captured.gradients})
    return (f"{update.why}: PyTorch's own optimizer.step() runs behind each step, and is not within the budget, nor are the gradients that it is given "
            f"({shown_bytes(size)}) and its state")


def check_other_graphs(model: torch.nn.Module, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """What made the batch must not be the model itself: its gradients would be sums of which the step has a part."""
    parameters = {id(parameter) for parameter in model.parameters()}
    for name, tensor in zip(names, tensors):
        if not tensor.requires_grad:
            continue
        if id(tensor) in parameters:
            raise CaptureError(f"{name} is a parameter of the model; expected a copy, as x.detach().clone() makes it")
        seen, waiting = set(), [tensor.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if id(getattr(node, "variable", None)) in parameters:
                raise CaptureError(f"{name} was made by the model itself, whose gradients would be of two passes; expected x.detach()")
            waiting += [following for following, _ in node.next_functions]


@contextlib.contextmanager
def _no_gradients(update: PlainUpdate | None, ours: Any) -> Iterator[None]:
    """As behind optimizer.zero_grad(); what lay there lies there afterwards."""
    each = {id(p): p for p in ours}
    if update is not None:
        each |= {id(p): p for group in update.optimizer.param_groups for p in group["params"]}
    before = [(parameter, parameter.grad) for parameter in each.values()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


def _parameter(model: torch.nn.Module, name: str) -> Any:
    path, _, leaf = name.rpartition(".")
    return model.get_submodule(path)._parameters[leaf]


def span_of(tensor: torch.Tensor) -> int:
    """Bytes from its first element to its last."""
    if tensor.numel() == 0:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))) * tensor.itemsize
