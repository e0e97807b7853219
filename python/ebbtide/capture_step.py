"""ebbtide.capture: a model, a loss, an optimizer and one batch in; the whole training step as a graph out."""

import time

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .capture_errors import CaptureError, refusals
from .capture_file import build_graph, constant_values, write_graph
from .capture_known import KnownValues
from .capture_layers import Layers
from .capture_scene import Scene, Source, nothing_else_changes, run_forward, run_model, standing_in, tensors_in
from .capture_trace import Tracing, rules_for
from .optimizers import describe
from .step_arguments import shown_bytes


class CapturedStep:
    """A captured step. `graph` is the object that docs/graph-format.md describes."""

    def __init__(self, graph, update, sources, seconds):
        self.graph = graph
        self.update = update  # optimizers.Update: the scalars' values for each step; None without an optimizer
        self.sources = sources  # storage number -> capture_scene.Source, for all that exists before the step
        self.seconds = seconds

    def save(self, path):
        """Writes the graph file, gzip-compressed where the name ends in .gz."""
        write_graph(self.graph, path)

    def summary(self):
        """One line for people."""
        graph = self.graph
        sizes = {}
        for storage in graph["storages"]:
            sizes[storage["kind"]] = sizes.get(storage["kind"], 0) + storage["bytes"]
        kinds = ", ".join(f"{kind} {shown_bytes(size)}" for kind, size in sizes.items())
        return f"{graph['name']}: {len(graph['ops'])} ops, {len(graph['storages'])} storages ({kinds})"

    def __repr__(self):
        return f"<CapturedStep {self.summary()}>"


def capture_step(model, loss_fn, optimizer, example_batch, device=None, inference=False, autocast=None, keep_outputs=False,
                 around=None):
    """See ebbtide.capture. With `keep_outputs` all that the model returns is among the graph's outputs: a loop that
    holds it in a variable refers to it until the next forward pass has ended. `around`, given the optimizer's
    optimizers.Update, gives what is recorded in its place."""
    started = time.perf_counter()
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"model is of type {type(model).__name__}; expected a torch.nn.Module")
    if loss_fn is not None and not callable(loss_fn):
        raise CaptureError(f"loss_fn is of type {type(loss_fn).__name__}; expected a function or None")
    update = describe(optimizer) if optimizer is not None else None
    if around is not None:
        update = around(update)
    _check_device(device or next(model.parameters(), torch.empty(0)).device)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    scene = Scene(model, example_batch, device, mode)
    recorder, layers, known = scene.recorder, Layers(model), KnownValues(scene.recorder)

    rules = rules_for(mode)
    tracing = Tracing(recorder, scene.fakes, known, rules)

    with nothing_else_changes(), layers.followed(), known.not_called_fake(), torch.set_grad_enabled(not inference), mode, tracing:
        with standing_in(model, scene.state):
            recorder.layer = layers.forward
            lowered = torch.autocast(torch.device(scene.device).type, autocast, enabled=autocast is not None)
            with refusals("the forward pass", layers), rules, lowered:
                if inference:
                    outputs = run_model(model, scene.batch)
                    return _finish(model, None, scene, outputs, {}, started)
                out, loss = run_forward(model, loss_fn, scene.batch, layers)
                outputs = [loss, *(t for t in tensors_in(out) if keep_outputs and t is not loss)]
                del out
            recorder.phase, recorder.layer = "backward", layers.backward
            with refusals("the backward pass", layers), rules.backward_of(loss):
                loss.backward()
    gradients = {name: fake.grad for _, fake, name in scene.parameters.values() if fake.grad is not None}
    if not gradients:
        raise CaptureError("the loss depends on no parameter that requires a gradient")
    recorder.phase = "update"
    if update is not None:
        with torch.no_grad(), mode:
            update.record(recorder, tracing, scene.parameters, scene.declare_state)
    return _finish(model, update, scene, outputs, gradients, started)


def _finish(model, update, scene, outputs, gradients, started):
    recorder = scene.recorder
    meta = {
        "source": "torch", "framework": f"torch {torch.__version__.split('+')[0]}", "device": scene.device,
        "optimizer": update.name if update else "none",
    } | constant_values(recorder)
    graph, new_storage = build_graph(
        recorder, type(model).__name__, meta, list(dict.fromkeys(recorder.tensor_number(output) for output in outputs)),
        {recorder.storage_number(g): name for name, g in gradients.items()},
    )
    for storage, tensor in recorder.constants.items():
        scene.sources[storage] = Source("buffer", recorder.storages[storage]["name"], tensor)
    sources = {new_storage[s]: source for s, source in scene.sources.items() if s in new_storage}
    return CapturedStep(graph, update, sources, time.perf_counter() - started)


def _check_device(device):
    """Autograd asks the driver about a CUDA device, even for fakes."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise CaptureError(f"device {device!r}: expected cpu or cuda") from error
    if kind not in ("cpu", "cuda", "meta"):
        raise CaptureError(f"device {device!r}: expected cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise CaptureError("device cuda: PyTorch sees no GPU; expected one, or the phantom GPU (ebbtide dryrun -- ...)")
