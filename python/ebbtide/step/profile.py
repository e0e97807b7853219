"""Times and memory of a graph's ops on the present device: each distinct op is run on made-up data, once and for all."""

from __future__ import annotations

import copy
import ctypes
import hashlib
import json
import os
import pathlib
import platform
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import files, interrupts, native
from ..native.torch_library import library

_SIZE_UNKNOWN = {"mkldnn_rnn_layer"}  # only its run tells how large a workspace it makes for its gradient
# These make more than their shapes tell: a result that held what was to be reduced.
_MAKE_MORE = {"binary_cross_entropy", "linalg_lstsq", "mse_loss", "smooth_l1_loss", "soft_margin_loss"}
_BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4,
          "float64": 8, "complex64": 8, "complex128": 16}

Graph = dict[str, Any]  # as docs/graph-format.md describes it

_SPARE = 1 << 30  # of a GPU's memory, for what ops need beside their tensors
_LEFT = 64 << 20  # what is not taken of it
_IN_PLACE = "place_ns"  # the time of an op in its step, where caches hold what the ops before it left


class Profile:
    """Of a graph: `graph` has the times, workspaces and sizes that were measured, `requests` is for native.Engine.
    `in_place`: the times are those of ops within whole steps, and not alone."""

    def __init__(self, graph: Graph, known: dict[str, Any], path: pathlib.Path) -> None:
        self.graph, self._known, self._path = graph, known, path
        self.requests: list[list[int]] = []
        for op in graph["ops"]:
            found = known.get(key_of(op, graph)) or {}
            self.requests.append(found.get("requests", []))
            if found.get("workspace_bytes"):
                op["workspace"] = found["workspace_bytes"]
            if not op.get("deterministic", True):  # it is not run to be measured: as much as it is given and gives is assumed
                touched = {graph["tensors"][t]["storage"] for t in (*op["inputs"], *op["outputs"])}
                op["workspace"] = sum(graph["storages"][s]["bytes"] for s in touched)
        self._set_times()

    def alone(self) -> tuple[int, int]:
        """What the ops take together, each run alone, in nanoseconds; and how many of them were not measured, views aside."""
        wanted = [op for op in self.graph["ops"] if not _only_views(op, self.graph)]
        found = [self._known.get(key_of(op, self.graph)) for op in wanted]
        return sum(known["time_ns"] for known in found if known), sum(not known for known in found)

    def _set_times(self) -> None:
        timed = [(op, self._known.get(key_of(op, self.graph))) for op in self.graph["ops"]]
        for op, found in timed:
            if found:
                op["time_ns"] = max(found.get(_IN_PLACE) or found["time_ns"], 1)
        self.in_place = all(found is None or _IN_PLACE in found for _, found in timed)

    def set_times_in_place(self, times: Sequence[int]) -> None:
        """Takes the times that native.Engine.measure_ops gave, and keeps them for later."""
        by_key: dict[str, list[int]] = {}
        for op, time in zip(self.graph["ops"], times):
            by_key.setdefault(key_of(op, self.graph), []).append(time)
        changed = {}
        for key, each in by_key.items():
            if self._known.get(key):  # what equal ops take together stays the same
                changed[key] = self._known[key] | {_IN_PLACE: round(sum(each) / len(each))}
        self._known |= changed
        files.keep(self._path, (_read(self._path) or {}) | changed)
        self._set_times()


def profile(graph: Graph, progress: Callable[[int, int], None] = lambda done, all_ops: None, runs: int = 5, keep: bool = True,
            again: bool = False, device: str = "cpu") -> Profile:
    """Measures what is not known yet. The random state is left alone. `progress` is told how far it has come. With few `runs`
    times mean little; memory is measured all the same. `keep`: for later. `again`: also what is known.
    On a GPU memory for the largest op several times over is taken meanwhile."""
    graph = copy.deepcopy(graph)
    path = files.cache_folder() / "op-times" / f"{_machine(device)}.json"
    known = {} if again else _read(path) or {}
    before = len(known)
    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        if any(op["kind"] in _SIZE_UNKNOWN for op in graph["ops"]):
            _measure(graph, known, lambda op: op["kind"] in _SIZE_UNKNOWN, progress, runs, device)
            _correct_sizes(graph, known)
        _measure(graph, known, lambda op: True, progress, runs, device)
    _correct_sizes(graph, known)
    if keep and len(known) != before:
        files.keep(path, (_read(path) or {}) | known)
    return Profile(graph, known, path)


def sized(graph: Graph, device: str = "cpu") -> Graph:
    """The graph with the sizes that kernels give their results, where shapes do not tell; nothing else is run, and times are not looked at."""
    kinds = _SIZE_UNKNOWN | _MAKE_MORE
    if device != "cpu" or not any(op["kind"] in kinds for op in graph["ops"]):
        return graph
    graph = copy.deepcopy(graph)
    known: dict[str, Any] = {}
    with torch.random.fork_rng(devices=[]):
        for wanted in (_SIZE_UNKNOWN, kinds):  # of the others' arguments some are of the sizes that the first tell
            _measure(graph, known, lambda op, wanted=wanted: op["kind"] in wanted, lambda done, all_ops: None, 1, device)  # type: ignore[misc]
            _correct_sizes(graph, known)
    return graph


def _read(path: pathlib.Path) -> dict[str, Any] | None:
    """What is known of ops from before; None where there is nothing, or something that is not of this form."""

    def is_count(value: Any) -> bool:
        return type(value) is int and 0 <= value < 1 << 60

    def is_measured(found: Any) -> bool:
        return found is None or (
            set(found) - {_IN_PLACE} == {"time_ns", "workspace_bytes", "made_bytes", "requests"}
            and all(is_count(found[name]) for name in found.keys() & {"time_ns", "workspace_bytes", _IN_PLACE})
            and all(map(is_count, found["made_bytes"])) and all(type(n) is int and -1 <= n < 1 << 31 for n in found["requests"]))

    return files.read_kept(path, lambda known: isinstance(known, dict) and all(map(is_measured, known.values())))


def key_of(op: dict[str, Any], graph: Graph) -> str:
    """Equal for ops that do the same work: same operator, same numbers, tensors of the same form that share memory in
    the same way."""
    storages: dict[int, int] = {}

    def form(number: int | None) -> list[Any] | None:
        if number is None:
            return None
        tensor = graph["tensors"][number]
        place = storages.setdefault(tensor["storage"], len(storages))
        size = graph["storages"][tensor["storage"]]["bytes"]
        return [tensor["dtype"], tensor["shape"], tensor.get("stride"), tensor.get("offset", 0), place, size]

    def value(given: Any) -> Any:
        if isinstance(given, dict):
            if "tensor" in given:
                return {"tensor": form(given["tensor"])}
            if "tensors" in given:
                return {"tensors": [form(t) for t in given["tensors"]]}
            if "scalar" in given:
                return "scalar"
            if "scalars" in given:
                return ["scalar", len(given["scalars"])]
        return given

    said = [op["schema"], op["phase"] == "forward", [[name, value(given)] for name, given in op["arguments"].items()]]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:24]


def _measure(graph: Graph, known: dict[str, Any], wanted: Callable[[dict[str, Any]], bool], progress: Callable[[int, int], None],
             runs: int, device: str) -> None:
    missing: dict[str, int] = {}
    for number, op in enumerate(graph["ops"]):
        if wanted(op) and op.get("deterministic", True) and not _only_views(op, graph):
            key = key_of(op, graph)
            if key not in known:
                missing.setdefault(key, number)
    if not missing:
        return
    profiler = native.Profiler(native.Graph(json.dumps(graph)), library(device[:4]), _pool_for(graph, device) if device != "cpu" else None)
    for done, (key, number) in enumerate(missing.items()):
        progress(done, len(missing))
        interrupts.check()
        known[key] = profiler.profile(number, runs, device == "cpu" and torch.get_num_threads() == 1)  # None: it refuses such data
    progress(len(missing), len(missing))


def _only_views(op: dict[str, Any], graph: Graph) -> bool:
    read = {graph["tensors"][t]["storage"] for t in op["inputs"]}
    return bool(op["outputs"]) and not op.get("mutated") and all(graph["tensors"][t]["storage"] in read for t in op["outputs"])


def _correct_sizes(graph: Graph, known: dict[str, Any]) -> None:
    """Where an op makes more than the graph says, the graph is told."""
    made_before = {s for s, storage in enumerate(graph["storages"]) if storage["kind"] in ("parameter", "buffer", "input", "optimizer_state")}
    for op in graph["ops"]:
        births = [t for t in op["outputs"] if graph["tensors"][t]["storage"] not in made_before]
        first: dict[int, int] = {}
        for t in births:
            first.setdefault(graph["tensors"][t]["storage"], t)
        made_before.update(first)
        found = known.get(key_of(op, graph))
        if not found:
            continue
        for (storage, tensor), size in zip(first.items(), found["made_bytes"]):
            if size <= graph["storages"][storage]["bytes"]:
                continue
            if op["kind"] in _SIZE_UNKNOWN and graph["tensors"][tensor]["shape"] == [0]:
                graph["tensors"][tensor]["shape"] = [size // _BYTES[graph["tensors"][tensor]["dtype"]]]
            graph["storages"][storage]["bytes"] = size


def _pool_for(graph: Graph, device: str) -> native.Pool:
    """As much of the GPU as its ops may need to be measured, or all that is free."""
    storages, most = graph["storages"], 0
    for op in graph["ops"]:
        touched = {graph["tensors"][t]["storage"] for t in (*op["inputs"], *op["outputs"])}
        most = max(most, sum(storages[s]["bytes"] + 512 for s in touched))
    free, _ = torch.cuda.mem_get_info(device)
    return native.Pool.cuda(min(6 * most + _SPARE, free - _LEFT), torch.device(device).index)


def _machine(device: str = "cpu") -> str:
    """What times depend on besides the op."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), processor)
    except OSError:
        pass
    said = [torch.__version__, processor, torch.get_num_threads(), os.cpu_count(), torch.backends.mkldnn.enabled]
    if device != "cpu":
        phantom = [os.environ.get("EBBTIDE_PHANTOM_KERNEL_US", "0")] if hasattr(ctypes.CDLL(None), "ebbtide_phantom_begin") else []
        said += [torch.cuda.get_device_name(device), torch.backends.cudnn.enabled, phantom]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
