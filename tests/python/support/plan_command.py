"""What tests of `ebbtide plan` and `ebbtide share` begin with: quick searches, a small model, a step made by hand."""

import json

from support.command_line import run

QUICK = ("--evaluations", "60")
RESNET = ("resnet18", "--batch-size", "16", "--image-size", "128")


def timed_graph():
    """a (100 bytes) and b (60) are made, c (200) comes and goes, then backward reads a and b. 10 us per op.

    Everything at once: during c, p (40) + a + b + c = 400. No plan can do with less than p + c + its workspace (8).
    """
    def storage(size, kind="activation"):
        return {"kind": kind, "bytes": size}

    def op(kind, phase, inputs, outputs, **more):
        return {"kind": kind, "phase": phase, "inputs": inputs, "outputs": outputs, "time_ns": 10_000, **more}

    sizes = [40, 100, 60, 200, 4]
    return {
        "format": "ebbtide.graph", "version": 1, "name": "by hand",
        "storages": [storage(size, "parameter" if i == 0 else "activation") for i, size in enumerate(sizes)],
        "tensors": [{"storage": i, "dtype": "uint8", "shape": [size]} for i, size in enumerate(sizes)],
        "ops": [op("relu", "forward", [0], [1]), op("relu", "forward", [1], [2]),
                op("relu", "forward", [0], [3], workspace=8), op("relu", "backward", [1, 2], [4])],
        "outputs": [4],
    }


def plan(*words, code=0):
    done = run("plan", *words, "--json")
    assert (done.returncode, done.stderr) == (code, "")
    return json.loads(done.stdout)
