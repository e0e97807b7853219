"""fuse: a captured graph in, the same step in Inductor's kernels out."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import pathlib
import time
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import files
from ..capture.record import PERSISTENT
from .build import Fused
from .cpp import not_waiting
from .library import Kernel, called_of, kernels_of, load
from .program import Number, read
from .replay import Graph, NotFused
from .segments import Segment, Step, groups, segments, update_ops, update_segment

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
    started = time.perf_counter()
    path = files.cache_folder() / "fused" / f"{_key(graph, device)}.json"
    try:
        kept = files.read_kept(path, lambda said: set(said) == {"graph", "storages", "tensors", "kernels", "refused"})
        if kept is None:
            kept = _fuse(graph, device)
            files.keep(path, kept)
        else:
            for said in kept["kernels"]:
                load(called_of(said))
    except NotFused:
        raise
    except Exception as error:
        raise NotFused(_said(error)) from error
    for why, count in kept["refused"].items():
        warnings.warn(f"kernels='inductor': {count} ops of the update run with eager's kernels: {why}", stacklevel=3)
    made = kept["graph"] | {"scalars": graph["scalars"]}
    return FusedStep(made, dict(map(tuple, kept["storages"])), dict(map(tuple, kept["tensors"])), time.perf_counter() - started)


def _key(graph: Graph, device: str) -> str:
    """What a fused graph depends on: values of scalars are not among it."""
    import torch._functorch.config as partitioner
    import torch._inductor.config as config

    of_graph = graph | {"scalars": [scalar["name"] for scalar in graph["scalars"]]}
    own = [path.read_bytes() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))]
    said = [of_graph, device, torch.__version__, torch.get_num_threads(), config.get_hash(), partitioner.get_hash(),
            hashlib.sha256(b"".join(own)).hexdigest()]
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()[:32]


def _fuse(graph: Graph, device: str) -> dict[str, Any]:
    with not_waiting() if device == "cpu" else contextlib.nullcontext():
        fused, refused = _begin_all(graph, device)
    for called in fused.called.values():
        load(called)
    made = fused.finish()
    before = {fused.storage_numbers[s] for s in _changed(graph) if s in fused.storage_numbers}
    if before != _changed(made) & set(fused.storage_numbers.values()):
        raise NotFused("Inductor's program does not write what the step writes")
    used = [called.to_json() for called in fused.called.values()]
    return {"graph": made, "storages": list(fused.storage_numbers.items()), "tensors": list(fused.tensor_numbers.items()), "kernels": used, "refused": refused}


def _begin_all(graph: Graph, device: str) -> tuple[Fused, dict[str, int]]:
    """The graph, whose kernels are being compiled; and of the update, why ops were left out and how many."""
    step = Step(graph, device)
    fused = Fused(step)
    compiled: dict[str, tuple[str, dict[str, Kernel]]] = {}
    for op in graph["ops"]:
        if op["phase"] == "backward" and op["kind"] == "ones_like" and op["inputs"][0] in graph["outputs"]:
            fused.seed(op["outputs"][0])
    for segment in segments(step):
        _restride(step, segment, fused)
        donated = fused.used_up(segment.inputs) if segment.phase == "backward" else []
        _tell(segment, fused, *_compiled(step, segment, compiled, donated))
    refused: dict[str, int] = {}
    for ops in groups(step, update_ops(graph)):
        try:
            segment = update_segment(step, ops)
            _restride(step, segment, fused)
            source, kernels = _compiled(step, segment, compiled)
        except Exception as error:
            why = _said(error)
            refused[why] = refused.get(why, 0) + len(ops)
            fused.as_captured(ops)
            continue
        _tell(segment, fused, source, kernels)
    return fused, refused


def _said(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return str(error) if isinstance(error, NotFused) else f"Inductor: {type(error).__name__}: {said[0] if said else ''}"


def _tell(segment: Segment, fused: Fused, source: str, kernels: dict[str, Kernel]) -> None:
    """The program's lines become ops, what it returns has its names."""
    fused.use(kernels, segment.phase, segment.layer)
    results = read(source, [fused.value(name) for name in segment.inputs], fused)
    for name, value in zip(segment.outputs, results):
        fused.give(name, value)


def _changed(graph: Graph) -> set[int]:
    """The storages that ops change in place."""
    return {graph["tensors"][t]["storage"] for op in graph["ops"] for t in op.get("mutated", ())}


def _restride(step: Step, segment: Segment, fused: Fused) -> None:
    """What an earlier segment gives has the strides that Inductor chose."""
    places = segment.module.graph.find_nodes(op="placeholder")
    for i, (name, fake) in enumerate(zip(segment.inputs, segment.fakes)):
        value = fused.value(name)
        if isinstance(value, Number):
            continue
        if tuple(fake.stride()) != value.stride:
            with step.mode:
                segment.fakes[i] = torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=step.device)
            places[i].meta["val"] = segment.fakes[i]


@contextlib.contextmanager
def _settings(aligned: bool) -> Iterator[None]:
    """Inductor's own, but for the reuse of memory, which is a plan's, and the addresses of what users hold, which may be any."""
    import torch._inductor.config as config

    with config.patch(allow_buffer_reuse=False, cpp_wrapper=False, assume_aligned_inputs=aligned, **{"triton.cudagraphs": False}):
        yield


def _compiled(step: Step, segment: Segment, known: dict[str, tuple[str, dict[str, Kernel]]],
              donated: Sequence[int] = ()) -> tuple[str, dict[str, Kernel]]:
    """The program that Inductor writes for a segment, and its kernels. Equal segments, as updates of parameters of one shape, share them. `donated`: places
    of inputs that nobody wants afterwards, which may be written over."""
    from torch._inductor.compile_fx import _recursive_joint_graph_passes, compile_fx_inner
    from torch._inductor.virtualized import V

    text = repr((segment.phase, segment.module.code, [(f.dtype, f.shape, f.stride()) for f in segment.fakes], donated))
    key = hashlib.sha256(text.encode()).hexdigest()
    if key not in known:
        alone = segment.phase == "update"
        module = segment.module
        aligned = not any(storage.get("outside") for storage in step.graph["storages"])
        context: Any = torch._guards.TracingContext(step.mode)
        if donated:
            # All that compile_fx_inner asks of it.
            context.fw_metadata = types.SimpleNamespace(bw_donated_idxs=list(donated), static_input_indices=[])
        with V.set_fake_mode(step.mode), torch._guards.tracing(context), _settings(aligned), warnings.catch_warnings():
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
        return fuse_whole(captured, device)
    except NotFused as error:
        warnings.warn(f"kernels='inductor': {error}; the step runs with eager's kernels", stacklevel=2)
        return captured


def fuse_whole(captured: CapturedStep, device: str) -> CapturedStep:
    """The captured step in Inductor's kernels. Raises NotFused."""
    if captured.kept:
        raise NotFused("the model's code keeps tensors of the step")
    fused = fuse(captured.graph, device)
    made = copy.copy(captured)
    made.graph, made.unfused = fused.graph, captured
    made.sources = {fused.storages[storage]: source for storage, source in captured.sources.items()}
    made.gradients = [(name, fused.tensors[number]) for name, number in captured.gradients]
    made.input_gradients = [(place, fused.tensors[number]) for place, number in captured.input_gradients]
    made.fused = savings(captured.graph, fused.graph)
    made.seconds = captured.seconds + fused.seconds
    return made


def savings(captured: Graph, fused: Graph) -> dict[str, int]:
    """What the fusion saves: ops that are no views, and bytes of what they make."""

    def ops(graph: Graph) -> int:
        return sum(not _is_view(op, graph) for op in graph["ops"])

    def made(graph: Graph) -> int:
        return sum(storage["bytes"] for storage in graph["storages"] if storage["kind"] not in PERSISTENT)

    kernels = sum(op["schema"].startswith("ebbtide::") for op in fused["ops"])
    return {"captured_ops": ops(captured), "ops": ops(fused), "kernels": kernels, "captured_made_bytes": made(captured), "made_bytes": made(fused)}


def _is_view(op: dict[str, Any], graph: Graph) -> bool:
    read = {graph["tensors"][t]["storage"] for t in op["inputs"]}
    return bool(op["outputs"]) and not op.get("mutated") and all(graph["tensors"][t]["storage"] in read for t in op["outputs"])


def fuse_joint(joint: Any) -> None:
    """A graph of torch.compile's (compile.capture.Joint), in Inductor's kernels. Where it cannot be, it stays as it is, and a warning says why."""
    try:
        fused = fuse(joint.graph, joint.device)
    except NotFused as error:
        warnings.warn(f"kernels='inductor': {error}; the graph runs with eager's kernels", stacklevel=2)
        return
    joint.graph = fused.graph
    joint.inputs = [None if storage is None else fused.storages[storage] for storage in joint.inputs]
    joint.tangents = [fused.storages[storage] for storage in joint.tangents]
    joint.constants = [(fused.storages[storage], tensor) for storage, tensor in joint.constants]
    handed = [form for form in (*joint.outputs, *joint.gradients) if hasattr(form, "storage")]
    for form in handed:
        form.storage = fused.storages[form.storage]


__all__ = ["FusedStep", "NotFused", "fuse", "fuse_capture", "fuse_joint", "fuse_whole", "savings"]
