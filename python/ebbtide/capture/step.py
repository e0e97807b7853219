"""ebbtide.capture: a model, a loss, an optimizer and one batch in; the whole training step as a graph out."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from .. import interrupts, native
from ..arguments import shown_bytes
from ..errors import CaptureError
from .alone import alone
from .errors import refusals
from .file import build_graph, constant_values, write_graph
from .inputs import Source, StepInputs, nothing_else_changes, run_forward, run_model, standing_in, tensors_in
from .kernels import calls_on_fakes, check_runs
from .known_values import KnownValues
from .layers import Layers
from .optimizers import describe
from .scratch import add_scratch
from .trace import Tracing, rules_for
from .watch.watch import Watch, watch_of


@dataclasses.dataclass(frozen=True)
class CaptureOptions:
    """How a step is captured."""

    device: str | torch.device | None = None  # whose kernels to record; None: those of the model's parameters
    inference: bool = False  # the model is called under torch.no_grad(), and that is all
    autocast: torch.dtype | None = None  # that the model and the loss run under
    # All that the model returns is among the graph's outputs: a loop that holds it in a variable refers to it until the
    # next forward pass has ended.
    keep_outputs: bool = False
    # The graph is to be run: what can only be estimated (an optimizer that is traced for its memory) is refused.
    for_running: bool = False
    # Of a graph that is to be run: an update that cannot be recorded is left to PyTorch (a PlainUpdate); a text says why every one is. None: refused.
    plain_update: str | None = None
    # Of a graph that is to be estimated: gradients of earlier batches are there when backward adds to them.
    accumulates: bool = False
    # Given the optimizer's Update, gives what is recorded in its place.
    around: Callable[[Any], Any] | None = None
    # Over the model, the loss and what `around` adds; None: one that puts back what the code writes, and no more.
    watch: Watch | None = None


AS_IT_IS = CaptureOptions()


class CapturedStep:
    """A captured step. `graph` is the object that docs/graph-format.md describes."""

    def __init__(self, graph: dict[str, Any], update: Any, sources: dict[int, Source], seconds: float) -> None:
        self.graph = graph
        # An Update, or what CaptureOptions.around gave for it: the scalars' values for each step. None without an optimizer.
        self.update = update
        self.sources = sources  # by storage number, for all that exists before the step
        self.value_of: Callable[[torch.Tensor], torch.Tensor | None] = lambda fake: None  # of tensors that depend on no data: their values
        self.given: list[int] = []  # the tensors of the graph that were asked for as outputs, in order
        # What the step gives beside its loss, as tensors of the graph: gradients for a PlainUpdate, by parameter, and for inputs that require them, by place
        # among the batch's tensors; what the user's code has kept, by id, with the fakes that it kept.
        self.gradients: list[tuple[str, int]] = []
        self.input_gradients: list[tuple[int, int]] = []
        self.accumulated: list[str] = []  # parameters in the order in which their gradients are stored, where hooks see it
        self.kept: dict[int, tuple[torch.Tensor, int]] = {}
        self.batch: list[torch.Tensor] = []  # the fakes of the batch's tensors
        self.asked: list[tuple[torch.Tensor, torch.Tensor]] = []  # tensors whose values decided which ops there are, and copies
        self.seconds = seconds
        self.unfused: CapturedStep | None = None  # of a step in Inductor's kernels: as it was captured
        self.fused: dict[str, int] = {}  # and what the fusion saves: ops and bytes of results, captured and now

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph file, gzip-compressed where the name ends in .gz."""
        write_graph(self.graph, path)

    def summary(self) -> str:
        """One line for people."""
        graph = self.graph
        sizes: dict[str, int] = {}
        for storage in graph["storages"]:
            sizes[storage["kind"]] = sizes.get(storage["kind"], 0) + storage["bytes"]
        kinds = ", ".join(f"{kind} {shown_bytes(size)}" for kind, size in sizes.items())
        return f"{graph['name']}: {len(graph['ops'])} ops, {len(graph['storages'])} storages ({kinds})"

    def __repr__(self) -> str:
        return f"<CapturedStep {self.summary()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: that of `ebbtide inspect`."""
        return native.inspect(native.Graph(json.dumps(self.graph), self.graph["name"]))._repr_html_()


@interrupts.deferring  # torch is patched meanwhile
@alone()
def capture_step(model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor] | None,
                 optimizer: torch.optim.Optimizer | None, example_batch: Any,
                 options: CaptureOptions = AS_IT_IS) -> CapturedStep:
    """See ebbtide.capture."""
    started = time.perf_counter()
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"model is of type {type(model).__name__}; expected a torch.nn.Module")
    if loss_fn is not None and not callable(loss_fn):
        raise CaptureError(f"loss_fn is of type {type(loss_fn).__name__}; expected a function or None")
    update: Any = describe(optimizer, not options.for_running, options.plain_update) if optimizer is not None else None
    if options.around is not None:
        update = options.around(update)
    _check_device(options.device or next(model.parameters(), torch.empty(0)).device)
    watch = options.watch or Watch(watch_of(model, loss_fn), reads=False)
    with watch.over():
        return _capture(model, loss_fn, update, example_batch, options, watch, started)


def _capture(model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor] | None, update: Any, example_batch: Any,
             options: CaptureOptions, watch: Watch, started: float) -> CapturedStep:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = StepInputs(model, example_batch, options.device, mode, plain=options.plain_update is not None)
    if options.accumulates:
        inputs.declare_gradients(mode)
    recorder, layers, known = inputs.recorder, Layers(model), KnownValues(inputs.recorder)

    rules = rules_for(mode)
    tracing = Tracing(recorder, inputs.fakes, known, rules)

    with nothing_else_changes(), calls_on_fakes(), layers.followed(), known.not_called_fake(), \
            torch.set_grad_enabled(not options.inference), mode, tracing, watch.observing():
        with standing_in(model, inputs.state):
            recorder.layer = layers.forward
            lowered = torch.autocast(torch.device(inputs.device).type, options.autocast, enabled=options.autocast is not None)
            with refusals("the forward pass", layers), rules, lowered:
                if options.inference:
                    outputs = run_model(model, inputs.batch)
                    return _finish(model, None, inputs, outputs, {}, started)
                out, loss = run_forward(model, loss_fn, inputs.batch, layers)
                outputs = [loss, *(t for t in tensors_in(out) if options.keep_outputs and t is not loss)]
                del out
            recorder.phase, recorder.layer = "backward", layers.backward
            before = watch.codes_run()
            with refusals("the backward pass", layers), rules.backward_of(loss):
                loss.backward()
    if options.for_running:
        check_runs(recorder)
    if inputs.accumulated and watch.codes_run() > before:
        raise CaptureError(f"parameter {inputs.accumulated[0]} or another has a hook that runs after its gradient is stored, and other Python code runs in the "
                           "backward pass, which may see what the hook does; expected one of them alone")
    gradients = {name: fake.grad for _, fake, name in inputs.parameters.values() if fake.grad is not None}
    if not gradients:
        raise CaptureError("the loss depends on no parameter that requires a gradient")
    recorder.phase = "update"
    if update is not None:
        with torch.no_grad(), mode, watch.observing():
            update.record(recorder, tracing, inputs.parameters, inputs.declare_state)
    plain = getattr(update, "plain", None)
    for_optimizer = plain.gradients if plain is not None else []
    batch = [leaf for leaf in tree_leaves(inputs.batch) if isinstance(leaf, torch.Tensor)]
    for_inputs = [(place, fake.grad) for place, fake in enumerate(batch) if options.for_running and fake.requires_grad and fake.grad is not None]
    kept = [fake for fake in watch.kept_tensors() if recorder.gives(fake)] if options.for_running else []
    outputs += [*(gradient for _, gradient in (*for_optimizer, *for_inputs)), *kept]
    captured = _finish(model, update, inputs, outputs, gradients, started)
    numbers = iter(captured.given[-len(for_optimizer) - len(for_inputs) - len(kept):])
    captured.gradients = [(name, next(numbers)) for name, _ in for_optimizer]
    captured.input_gradients = [(place, next(numbers)) for place, _ in for_inputs]
    captured.kept = {id(fake): (fake, next(numbers)) for fake in kept}
    captured.accumulated = inputs.accumulated
    captured.batch, captured.asked, captured.value_of = batch, list(known.asked.values()), known.of
    return captured


def _finish(model: torch.nn.Module, update: Any, inputs: StepInputs, outputs: Sequence[torch.Tensor],
            gradients: dict[str, torch.Tensor], started: float) -> CapturedStep:
    recorder = inputs.recorder
    places = {id(op): place for place, op in enumerate(recorder.ops)}
    meta = {
        "source": "torch", "framework": f"torch {torch.__version__.split('+')[0]}", "device": inputs.device,
        "optimizer": update.name if update else "none",
    } | _assumptions(update) | constant_values(recorder)
    numbers = [recorder.tensor_number(output) for output in outputs]
    graph, new_storage = build_graph(
        recorder, type(model).__name__, meta, list(dict.fromkeys(numbers)),
        {recorder.storage_number(g): name for name, g in gradients.items()},
    )
    if torch.device(inputs.device).type == "cuda":
        add_scratch(graph, recorder, places)
    for storage, tensor in recorder.constants.items():
        inputs.sources[storage] = Source("buffer", recorder.storages[storage]["name"], tensor, fresh=storage in recorder.fresh)
    sources = {new_storage[s]: source for s, source in inputs.sources.items() if s in new_storage}
    captured = CapturedStep(graph, update, sources, time.perf_counter() - started)
    given = dict(zip(dict.fromkeys(numbers), graph["outputs"]))
    captured.given = [given[number] for number in numbers]
    return captured


def _assumptions(update: Any) -> dict[str, str]:
    assumed = getattr(update, "assumed", [])
    return {"assumed": "; ".join(assumed)} if assumed else {}


def _check_device(device: str | torch.device) -> None:
    """Autograd asks the driver about a CUDA device, even for fakes."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise CaptureError(f"device {device!r}: expected cpu or cuda") from error
    if kind not in ("cpu", "cuda", "meta"):
        raise CaptureError(f"device {device!r}: expected cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise CaptureError("device cuda: PyTorch sees no GPU; expected one, or the phantom GPU (ebbtide dryrun -- ...)")
