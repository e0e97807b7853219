"""The graph as a value and as a file: kinds of storages, dead views, JSON plain or gzip."""

import gzip
import json
import os
import tempfile

from ..errors import CaptureError
from .record import PERSISTENT

_LARGEST_CONSTANT = 1024  # elements
FORMAT, VERSION = "ebbtide.graph", 1
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}  # their contents mean nothing


def build_graph(recorder, name, meta, outputs, gradients):
    """The graph file's object, and what became of the recorder's storage numbers.

    `outputs` are tensor numbers, `gradients` storage numbers with their names.
    """
    ops = _without_dead_views(recorder.ops, recorder.tensors, set(outputs))
    tensors, storages, new_tensor, new_storage = _compacted(ops, recorder.tensors, recorder.storages, outputs)
    _name_kinds(ops, tensors, storages, {new_storage[s]: n for s, n in gradients.items()}, {new_storage[recorder.tensors[t]["storage"]] for t in outputs})
    graph = {
        "format": FORMAT, "version": VERSION, "name": name, "meta": meta, "scalars": recorder.scalars,
        "storages": storages, "tensors": tensors, "ops": ops, "outputs": [new_tensor[t] for t in outputs],
    }
    return graph, new_storage


def constant_values(recorder):
    """The values of small constants, by name, as JSON, for whoever runs the step from the file alone."""
    return {
        recorder.storages[storage]["name"]: json.dumps(tensor.tolist())
        for storage, tensor in recorder.constants.items()
        if tensor.numel() <= _LARGEST_CONSTANT and tensor.device.type == "cpu" and not tensor.is_complex()
    }


def write_graph(graph, path):
    """Under a temporary name first, so that a reader never sees half a file."""
    path = os.fspath(path)
    text = json.dumps(graph, separators=(",", ":"), allow_nan=False).encode()
    if path.endswith(".gz"):
        text = gzip.compress(text, compresslevel=6, mtime=0)
    folder = os.path.dirname(path) or "."
    try:
        handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=folder)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise CaptureError(f"{path}: cannot be written: {error.strerror}") from error


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _without_dead_views(ops, tensors, wanted):
    """Views and unwritten memory that nothing reads are bookkeeping; ops that compute stay, read or not."""
    kept = []
    for op in reversed(ops):
        read = {tensors[t]["storage"] for t in op["inputs"]}
        makes_nothing = op["kind"] in _UNWRITTEN or all(tensors[t]["storage"] in read for t in op["outputs"])
        is_idle = makes_nothing and not op.get("mutated") and not op.get("random")
        if is_idle and not any(t in wanted for t in op["outputs"]):
            continue
        wanted.update(op["inputs"])
        kept.append(op)
    return kept[::-1]


def _compacted(ops, tensors, storages, outputs):
    """Numbers anew what is still used. What exists before the step stays, used or not: it takes memory."""
    used = set(outputs).union(*(op["inputs"] + op["outputs"] for op in ops))
    declared = {n for n, t in enumerate(tensors) if storages[t["storage"]]["kind"] in PERSISTENT and "name" in t}
    new_tensor = {old: new for new, old in enumerate(sorted(used | declared))}
    used_storages = {tensors[t]["storage"] for t in new_tensor}
    new_storage = {old: new for new, old in enumerate(sorted(used_storages))}
    for op in ops:
        for field in ("inputs", "outputs", "mutated"):
            if field in op:
                op[field] = [new_tensor[t] for t in op[field]]
        for value in op["arguments"].values():
            if isinstance(value, dict) and "tensor" in value:
                value["tensor"] = new_tensor[value["tensor"]]
            elif isinstance(value, dict) and "tensors" in value:
                value["tensors"] = [None if t is None else new_tensor[t] for t in value["tensors"]]
    new_tensors = [tensors[old] | {"storage": new_storage[tensors[old]["storage"]]} for old in new_tensor]
    return new_tensors, [storages[old] for old in new_storage], new_tensor, new_storage


def _name_kinds(ops, tensors, storages, gradients, outputs):
    made_in, read_in_backward = {}, set()
    for op in ops:
        if op["phase"] == "backward":
            read_in_backward.update(tensors[t]["storage"] for t in op["inputs"])
        for t in op["outputs"]:
            made_in.setdefault(tensors[t]["storage"], op["phase"])
    for number, storage in enumerate(storages):
        if storage["kind"] in PERSISTENT:
            continue
        if number in gradients:
            storage["kind"], storage["name"] = "gradient", gradients[number]
            if number not in outputs:
                storage["released_after"] = len(ops) - 1  # parameters refer to their gradients until the next step
        elif made_in.get(number) == "forward" and number in read_in_backward:
            storage["kind"] = "activation"
