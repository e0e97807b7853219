"""What cuDNN itself answers about the workspaces of convolutions, beside the table that the estimator and the phantom go by
(src/device/workspace_trees.h), and that table made anew from the answers.

    build/python bench/device/workspaces_bench.py [--gpu NAME ...] [--model NAME ...] [--sample N]    how right the table is
    build/python bench/device/workspaces_bench.py --fit > trees                                       trees fitted to the answers, in the table's form
    build/python bench/device/workspaces_bench.py --search [--gpu NAME ...]                           the largest workspace of all engines

cuDNN 9.8 is asked without a device; its packages are installed by bench/device/cudnn.lock at the first use."""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from _cudnn import Cudnn, Problem, Refused
from _trees import copied_bytes, evaluated, features_of, fitted, is_right, nearest_copies, read_trees, tree_name, written

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
TABLE = ROOT / "src" / "device" / "workspace_trees.h"
GPUS = ("rtx3060", "rtx4060", "a100-40gb", "t4")
MODELS = ("vgg16", "vgg19", "resnet18", "resnet50", "resnet152", "densenet121", "inception_v3", "mobilenet_v2", "convnext_tiny", "mnasnet1_0")
SIZES = ((8, 224), (32, 224), (128, 64), (377, 86))
SEARCH_LIMIT = 4 * 2**30


def convolutions(model):
    """Distinct ones of a built-in model at several batches and sizes of images."""
    found = {}
    for batch, image in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "graph.json"
            run = subprocess.run([PROGRAM, "inspect", model, "--batch-size", str(batch), "--image-size", str(image), "--device", "cuda", "--graph-out", file],
                                 capture_output=True, text=True)
            if run.returncode != 0:  # an image that is too small for the model
                continue
            graph = json.loads(file.read_text())
        tensors = graph["tensors"]
        for op in graph["ops"]:
            if op["kind"] != "convolution":
                continue
            arguments = op["arguments"]
            x, w, y = (tensors[arguments["input"]["tensor"]]["shape"], tensors[arguments["weight"]["tensor"]]["shape"], tensors[op["outputs"][0]]["shape"])
            if arguments.get("transposed") or 1 < arguments["groups"] == x[1]:  # depthwise ones run on PyTorch's own kernels
                continue
            window = (tuple(arguments[name]) for name in ("stride", "padding", "dilation"))
            found[(tuple(x), tuple(w), tuple(y), *window, arguments["groups"])] = None
    return list(found)


def problems(shapes, dtype, channels_last):
    for x, w, y, stride, padding, dilation, groups in shapes:
        for direction in ("forward", "data", "filter"):
            yield Problem(direction, x[0], x[1], w[0], x[2:], w[2:], y[2:], stride, padding, dilation, groups, dtype, channels_last)


def ask(options, shapes):
    """(GPU, capability, problem, the first engine's workspace, the largest within the limit)."""
    cudnn = Cudnn()
    print(f"cuDNN {cudnn.version}, {len(shapes)} convolutions, each forward and backward, on {', '.join(options.gpu)}", file=sys.stderr)
    for gpu in options.gpu:
        profile = json.loads((ROOT / "profiles" / f"{gpu}.json").read_text())
        device = cudnn.device(profile)
        capability = 10 * profile["compute_major"]["value"] + profile["compute_minor"]["value"]
        for problem in problems(shapes, options.dtype, options.channels_last):
            try:
                first = cudnn.heuristics(problem, device, most=1)
                largest = max((e.workspace for e in cudnn.engines(problem, device) if e.workspace <= SEARCH_LIMIT), default=0) if options.search else 0
            except Refused as refusal:
                print(f"{gpu}: {problem}: {refusal}", file=sys.stderr)
                continue
            if first:
                yield gpu, capability, problem, first[0].workspace, largest


def score(answers, trees):
    by_kind = collections.defaultdict(list)
    for gpu, capability, problem, answered, _ in answers:
        predicted = copied_bytes(problem, evaluated(trees[tree_name(problem)], features_of(problem, capability)))
        by_kind[gpu, tree_name(problem)].append((predicted, answered))
    failed = False
    print(f"{'GPU':12} {'tree':32} {'convolutions':>12} {'right':>7} {'bytes off':>10} {'right if all were 0':>20}")
    for (gpu, name), pairs in by_kind.items():
        right = sum(is_right(*pair) for pair in pairs) / len(pairs)
        off = sum(abs(p - a) for p, a in pairs) / max(sum(a for _, a in pairs), 1)
        without = sum(is_right(0, a) for _, a in pairs) / len(pairs)
        print(f"{gpu:12} {name:32} {len(pairs):12} {right:7.1%} {off:10.1%} {without:20.1%}")
        failed = failed or right < without  # then it would be better to know nothing
    return failed


def fit(answers):
    samples = collections.defaultdict(list)
    for _, capability, problem, answered, _ in answers:
        samples[tree_name(problem)].append((features_of(problem, capability), nearest_copies(problem, answered)))
    return {name: fitted(rows) for name, rows in samples.items()}


def search(answers):
    """By the rule of SearchedWorkspaces: forward, the image written out patch by patch."""
    print(f"{'GPU':12} {'pass':8} {'convolutions':>12} {'largest within 4 GiB: as the rule has it':>42}")
    pairs = collections.defaultdict(list)
    for gpu, capability, problem, first, largest in answers:
        ways = [first]
        if capability >= 80 and problem.groups == 1:
            ways.append(copied_bytes(problem, (1, 1, 1)))
        if problem.direction == "forward" and problem.groups == 1:
            patches = 4 * problem.batch * problem.in_channels * problem.filter[0] * problem.filter[1] * problem.output[0] * problem.output[1]
            ways.append(patches)
        pairs[gpu, problem.direction].append((max((w for w in ways if w <= SEARCH_LIMIT), default=0), largest))
    for (gpu, direction), found in pairs.items():
        print(f"{gpu:12} {direction:8} {len(found):12} {sum(is_right(*pair) for pair in found) / len(found):42.1%}")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpu", action="append")
    parser.add_argument("--model", action="append")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N convolutions, the same each time")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--search", action="store_true")
    options = parser.parse_args()
    options.gpu = options.gpu or list(GPUS)
    return options


def in_its_environment():
    """Goes on in the environment that has cuDNN 9.8."""
    if os.environ.get("EBBTIDE_ASKS_CUDNN"):
        return
    run = subprocess.run([ROOT / "scripts" / "setup-python", "bench/device/cudnn.lock"], check=True, text=True, stdout=subprocess.PIPE)
    environment = dict(os.environ, EBBTIDE_ASKS_CUDNN="1")
    environment.pop("PYTHONPATH", None)
    python = run.stdout.strip() + "/bin/python"
    os.execve(python, [python, *sys.argv], environment)


def main():
    options = parse_options()
    in_its_environment()
    shapes = list(dict.fromkeys(shape for model in options.model or MODELS for shape in convolutions(model)))
    if options.sample and options.sample < len(shapes):
        shapes = random.Random(0).sample(shapes, options.sample)
    answers = list(ask(options, shapes))
    if options.search:
        search(answers)
        return 0
    if options.fit:
        trees = fit(answers)
        for name, tree in trees.items():
            print(written(name, tree) + "\n")
        sys.stdout, shown = sys.stderr, sys.stdout
        score(answers, trees)
        sys.stdout = shown
        return 0
    return 1 if score(answers, read_trees(TABLE)) else 0


if __name__ == "__main__":
    sys.exit(main())
