"""fuse: a captured graph in, the same step in Inductor's kernels out."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .build import Fused
from .library import Kernel, kernels_of
from .program import read
from .replay import Graph, NotFused
from .segments import Segment, Step, segments

if TYPE_CHECKING:
    from ..capture.step import CapturedStep


@dataclasses.dataclass
class FusedStep:
    """`graph` is the step in Inductor's kernels; `storages` and `tensors` tell what numbers of the captured graph have become."""

    graph: Graph
    storages: dict[int, int]
    tensors: dict[int, int]
    seconds: float


def fuse(graph: Graph, device: str) -> FusedStep:
    """Compiles what a captured graph computes. Raises NotFused where Inductor, or this, does not take it."""
    try:
        return _fuse(graph, device)
    except NotFused:
        raise
    except Exception as error:
        said = str(error).strip().splitlines()
        raise NotFused(f"Inductor: {type(error).__name__}: {said[0] if said else ''}") from error


def _fuse(graph: Graph, device: str) -> FusedStep:
    started = time.perf_counter()
    step = Step(graph, device)
    fused = Fused(step)
    compiled: dict[str, tuple[str, dict[str, Kernel]]] = {}
    for op in graph["ops"]:
        if op["phase"] == "backward" and op["kind"] == "ones_like" and op["inputs"][0] in graph["outputs"]:
            fused.seed(op["outputs"][0])
    for segment in segments(step):
        if segment.phase == "backward":
            _restride(step, segment, fused)
        source, kernels = _compiled(step, segment, compiled)
        fused.use(kernels, segment.phase, segment.layer)
        results = read(source, [fused.value(name) for name in segment.inputs], fused)
        for name, value in zip(segment.outputs, results):
            fused.give(name, value)
    return FusedStep(fused.finish(), fused.storage_numbers, fused.tensor_numbers, time.perf_counter() - started)


def _restride(step: Step, segment: Segment, fused: Fused) -> None:
    """What forward gives has the strides that Inductor chose."""
    places = segment.module.graph.find_nodes(op="placeholder")
    for i, (name, fake) in enumerate(zip(segment.inputs, segment.fakes)):
        value = fused.value(name)
        if tuple(fake.stride()) != value.stride:  # type: ignore[union-attr]
            with step.mode:
                segment.fakes[i] = torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=step.device)  # type: ignore[assignment, union-attr]
            places[i].meta["val"] = segment.fakes[i]


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Inductor's own, but for the reuse of memory, which is a plan's."""
    import torch._inductor.config as config

    with config.patch(allow_buffer_reuse=False, cpp_wrapper=False, **{"triton.cudagraphs": False}):
        yield


def _compiled(step: Step, segment: Segment, known: dict[str, tuple[str, dict[str, Kernel]]]) -> tuple[str, dict[str, Kernel]]:
    """The program that Inductor writes for a segment, and its kernels. Equal segments, as updates of parameters of one shape, share them."""
    from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner
    from torch._inductor.virtualized import V

    text = repr((segment.phase, segment.module.code, [(f.dtype, f.shape, f.stride()) for f in segment.fakes]))
    key = hashlib.sha256(text.encode()).hexdigest()
    if key not in known:
        alone = segment.phase == "update"
        module = segment.module
        with V.set_fake_mode(step.mode), torch._guards.tracing(torch._guards.TracingContext(step.mode)), _settings(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if alone:
                module = _recursive_joint_graph_passes(module, input_device=step.device)
            module.graph.output_node().meta["user_visible_output_idxs"] = list(range(segment.visible))
            made: Any = compile_fx_inner(module, segment.fakes, is_backward=segment.phase == "backward", is_inference=alone)
        source = getattr(made, "source_code", None)
        if not source:
            raise NotFused("Inductor gave no program")
        known[key] = source, kernels_of(source)
    return known[key]


def fuse_capture(captured: CapturedStep, device: str) -> CapturedStep:
    """The captured step in Inductor's kernels. Where it cannot be, it is given back as it is, and a warning says why."""
    try:
        if captured.kept:
            raise NotFused("the model's code keeps tensors of the step")
        fused = fuse(captured.graph, device)
    except NotFused as error:
        warnings.warn(f"kernels='inductor': {error}; the step runs with eager's kernels", stacklevel=2)
        return captured
    made = copy.copy(captured)
    made.graph, made.unfused = fused.graph, captured
    made.sources = {fused.storages[storage]: source for storage, source in captured.sources.items()}
    made.gradients = [(name, fused.tensors[number]) for name, number in captured.gradients]
    made.input_gradients = [(place, fused.tensors[number]) for place, number in captured.input_gradients]
    made.seconds = captured.seconds + fused.seconds
    return made


__all__ = ["FusedStep", "NotFused", "fuse", "fuse_capture"]
