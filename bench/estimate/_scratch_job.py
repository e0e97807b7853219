"""Under the phantom GPU: captures the programs of _scratch_cases.py and prints, for each op of each, the scratch memory that an estimate
counts beside what PyTorch asks its allocator for when the op runs. A line of JSON for each program."""

import argparse
import gc
import json
import re
import sys
import warnings

import torch
from _scratch_cases import SIZES, Program, cases
from torch import nn

from ebbtide import CaptureError, native
from ebbtide.capture import step as capture
from ebbtide.capture.scratch import scratch_of, signature

OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad,
              "adafactor": torch.optim.Adafactor, "sgd": lambda p: torch.optim.SGD(p, momentum=0.9)}


class Watch:
    """In the place of the capture's own measuring: measures every op, and leaves none of it in the graph, so that what is counted is what the
    rules say."""

    def __init__(self):
        self.measured = {}  # id of an op's dict -> bytes or None

    def __call__(self, graph, recorder, places):
        seen = {}
        for op in graph["ops"]:
            key = signature(recorder, places[id(op)])
            if key not in seen:
                seen[key] = scratch_of(recorder, places[id(op)])
            self.measured[id(op)] = seen[key]


def ops_of(model, optimizer, batch, gpu):
    watch = Watch()
    own, capture.add_scratch = capture.add_scratch, watch
    try:
        graph = capture.capture_step(model, None, optimizer, batch, capture.CaptureOptions(device="cuda")).graph
    finally:
        capture.add_scratch = own
    counted = native.scratch_by_op(native.Graph(json.dumps(graph), "program"), gpu=gpu)
    return [{"kind": op["kind"], "phase": op["phase"], "counted": ours, "asked": watch.measured[id(op)],
             "rows": all("stride" not in graph["tensors"][t] for t in op["inputs"])}
            for op, ours in zip(graph["ops"], counted)]


def programs(only, sizes):
    for size in sizes:
        for name, (function, floats, others) in cases(size).items():
            for turned in (False, True):
                if re.search(only, name):
                    yield name, size, turned, lambda: Program(function, floats, turned), None, others
        width = SIZES[size][1]
        for name, make in OPTIMIZERS.items():
            if re.search(only, name):
                yield name, size, False, lambda: Program(nn.functional.linear, [(8, width), (width, width), (width,)], False), make, ()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for name, size, turned, build, make, others in programs(options.only, options.sizes):
        row = {"program": name, "size": size, "turned": turned}
        try:
            model = build()
            row["ops"] = ops_of(model, make(model.parameters()) if make else None, others, options.gpu)
        except (CaptureError, RuntimeError, ValueError, IndexError, TypeError) as error:
            row["refused"] = str(error).splitlines()[0][:200]
        print(json.dumps(row), file=answers, flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
