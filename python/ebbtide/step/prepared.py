"""A step that is ready to run: its capture, its plan, and the engine that runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import native
from ..arguments import shown_bytes
from ..capture.step import CapturedStep
from ..native.torch_library import library
from .batch import Leaves, check_memory, check_shared, name_of, resolved
from .behind import Behind, check_other_graphs, span_of
from .cuda_graphs import capturable, stream_of
from .guards import StepGuards
from .plan import Planned
from .profile import Profile
from .state import State

if TYPE_CHECKING:
    from .step import Step


class Prepared:
    """A step for one form of batch: its plan, and where it runs alone."""

    def __init__(self, step: Step, captured: CapturedStep, guards: StepGuards, graph: dict[str, Any], measured: Profile | None,
                 planned: Planned, leaves: Leaves) -> None:
        self.step, self.captured, self.guards, self.graph, self.measured, self.planned = step, captured, guards, graph, measured, planned
        self.steps = 0
        self.last: dict[str, Any] | None = None  # what the engine said of the last step
        by_name = {source.name: storage for storage, source in captured.sources.items() if source.kind == "input"}
        self.input_names = [name_of(path) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.inputs: list[int] = [by_name[name] for name in self.input_names]
        self.carried = [(storage, source.carried) for storage, source in captured.sources.items() if source.carried is not None]
        self.changed: set[int] = {graph["tensors"][t]["storage"] for op in graph["ops"] for t in op.get("mutated", ())} & set(self.inputs)
        self.loss: dict[str, Any] = graph["tensors"][graph["outputs"][0]]
        self._alone: Execution | None = None
        if step._lent_to is None:
            self.alone()

    def alone(self) -> Execution:
        """On the step's own pool."""
        if self._alone is None:
            pool = self.step.own_pool()
            engine = make_engine(self.planned, self.measured, pool)
            if self.step._options.cuda_graphs:
                engine.capture_ops(capturable(self.graph))
            self._alone = Execution(self, engine, pool.device)
        return self._alone

    def let_go(self) -> None:
        """Of the step's own pool."""
        self._alone = None

    @property
    def engine(self) -> native.Engine:
        return self.alone().engine

    def still_fits(self) -> bool:
        """Whether it is still the step that was captured: the update, and what Python code read."""
        return bool(self.captured.update.still_fits()) and self.guards.hold()

    def refresh(self, captured: CapturedStep, guards: StepGuards) -> None:
        """The same step was captured again."""
        self.captured.update, self.guards = captured.update, guards

    def run(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.alone().run(tensors)


class Execution:
    """A prepared step on an engine."""

    def __init__(self, prepared: Prepared, engine: native.Engine, device: str,
                 around_python: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        """`around_python`: what Python code behind the step runs in."""
        self.prepared, self.engine, self.device, self.around_python = prepared, engine, device, around_python
        step = prepared.step
        self.state = State(step._model, step._optimizer, step._totals, prepared.captured, device)
        self._behind = Behind(prepared.captured, device)

    def move_in(self) -> None:
        """State goes to where the engine has it, unless it is there."""
        self.state.attach(self.engine)
        if self.engine.move_in() and self.device != "cpu":
            torch.cuda.empty_cache()  # what was moved has left its memory to torch

    def run(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """One step on the tensors of a batch. Returns the loss; where it raises, nothing has changed."""
        if not self.prepared.step._options.cuda_graphs:
            return self._run(tensors)
        stream = stream_of(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            return self._run(tensors)

    def _run(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        prepared, model = self.prepared, self.prepared.step._model
        check_memory(prepared.input_names, tensors, self.device)
        if prepared.captured.input_gradients:
            check_other_graphs(model, prepared.input_names, tensors)
        self.move_in()
        check_shared(prepared.input_names, tensors, bool(prepared.changed), self.state.names_by_address)
        update, form = prepared.captured.update, prepared.loss
        read = [resolved(tensor) for tensor in tensors]
        inputs = [(s, 0, t.data_ptr(), span_of(t)) for s, t in zip(prepared.inputs, read)]
        carried = [(storage, find().untyped_storage()) for storage, find in prepared.carried]
        inputs += [(storage, 0, memory.data_ptr(), memory.nbytes()) for storage, memory in carried]
        loss = torch.empty(form["shape"], dtype=getattr(torch, form["dtype"]), device=self.device)
        outputs = [(form["storage"], form.get("offset", 0) * loss.itemsize, loss.data_ptr(), loss.nbytes)]
        outputs += [span for span in inputs if span[0] in prepared.changed]
        results = self._behind.results()
        outputs += results.spans()
        try:
            prepared.last = self.engine.step(update.scalar_values(), inputs, outputs)
        except MemoryError as error:
            raise torch.OutOfMemoryError(f"{error}; the step has changed nothing") from None
        prepared.steps += 1
        self.state.step_taken(update)
        with self.around_python():
            self._behind.finish(results, prepared.guards.effects, model, tensors)
        return loss


def tensors_of(leaves: Leaves) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)]


def make_pool(size: int, device: str, link: int | None = None, pinned_limit: int = -1) -> native.Pool:
    """Memory for steps to run in. `link`: bytes per second, on the CPU."""
    if device != "cpu":
        return native.Pool.cuda(size, torch.device(device).index, pinned_limit)
    try:
        return native.Pool(size, float(link or 0), float(link or 0))
    except MemoryError:
        raise MemoryError(f"budget {shown_bytes(size)}: expected a size that this process has addresses for; a budget above what the step takes "
                          "without a plan changes nothing") from None


def make_engine(planned: Planned, measured: Profile | None, pool: native.Pool) -> native.Engine:
    engine = native.Engine(planned.graph, planned.plan, library(pool.device.partition(":")[0]), pool)
    for op, requests in enumerate(measured.requests if measured else ()):
        if requests:
            engine.set_requests(op, requests)
    return engine
