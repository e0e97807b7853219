"""A captured step at twice its batch, from one capture.

The batch is a prime that no width and no number of pixels or words of the model is a multiple of. So every size that is a multiple of it counts
samples, and grows with the batch; every other stays. ebbtide then interpolates between the two (`--other-batch`), and checks both as it checks any graph."""

import gzip
import json
import math
import os

# Odd sizes come from grids and windows: 2 n - 1 and n * n + 1 of small n are none of these.
PRIMES = (163, 167, 173, 179)


class NotTelling(Exception):
    """The batch does not tell samples from the model's own sizes."""


def save_doubled(file, doubled_file, batch):
    with gzip.open(file, "rt") as text:
        graph = json.load(text)
    unfinished = doubled_file + ".unfinished"
    with gzip.open(unfinished, "wt", compresslevel=1) as text:
        json.dump(doubled(graph, batch), text)
    os.replace(unfinished, doubled_file)


def doubled(graph, batch):
    """Changes the graph in place."""
    kinds = [storage["kind"] for storage in graph["storages"]]
    yielded = {output for op in graph["ops"] for output in op.get("outputs", ())}  # among them views of weights, which may be as many as samples
    for number, tensor in enumerate(graph["tensors"]):
        if kinds[tensor["storage"]] == "input" or number in yielded:
            continue
        if any(n and n % batch == 0 for n in tensor["shape"]):
            raise NotTelling(f"batch {batch}: a weight of the model has the shape {tensor['shape']}")

    def scaled(number):
        return number * 2 if number % batch == 0 else number

    for storage in graph["storages"]:
        storage["bytes"] = scaled(storage["bytes"])
    for tensor in graph["tensors"]:
        tensor["shape"] = [scaled(n) for n in tensor["shape"]]
        for field in ("stride", "offset"):
            if field in tensor:
                tensor[field] = [scaled(n) for n in tensor[field]] if field == "stride" else scaled(tensor[field])
    for op in graph["ops"]:
        for field in ("flops", "workspace"):
            if field in op:
                op[field] = scaled(op[field])
        for name, value in op.get("arguments", {}).items():
            if isinstance(value, list):
                op["arguments"][name] = [scaled(n) if _is_whole(n) else n for n in value]
            elif _is_whole(value):
                op["arguments"][name] = scaled(value)
    return graph


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and not math.isinf(value)
