"""Estimates beside the phantom GPU, on which PyTorch's own allocator runs the same training: peak reserved bytes.

    build/python bench/estimate_bench.py [--gpu NAME] [--jobs N] [--only TEXT] [--json]

Each combination is a plain loop of three iterations (bench/_estimate_job.py): gradients are set to none when an iteration
begins, optimizers have torch's defaults, weights are float32."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
MIB = 2**20
COMBINATIONS = (
    ("alexnet", "momentum", 128), ("vgg11", "sgd", 64), ("vgg16", "sgd", 32), ("vgg19", "adam", 64), ("resnet18", "adam", 128),
    ("resnet34", "sgd", 256), ("resnet50", "adam", 32), ("resnet101", "adagrad", 64), ("resnet152", "momentum", 16),
    ("inception_v3", "rmsprop", 32), ("inception_v4", "sgd", 32), ("densenet121", "adamw", 32), ("densenet169", "sgd", 16),
    ("mobilenet_v2", "adagrad", 64), ("mobilenet_v3_small", "adam", 128), ("mobilenet_v3_large", "rmsprop", 64),
    ("mnasnet1_0", "adam", 64), ("regnet_x_400mf", "adafactor", 64), ("regnet_y_400mf", "momentum", 128),
    ("convnext_tiny", "adamw", 32), ("convnext_base", "sgd", 16), ("unet", "adam", 4), ("mlp", "adam", 256), ("lstm", "sgd", 64),
    ("lstm", "adam", 20), ("bert-base", "adamw", 16), ("bert-large", "sgd", 8), ("gpt2", "adamw", 8), ("distilgpt2", "adam", 16),
    ("cerebras-gpt-111m", "adagrad", 8), ("gpt-neo-125m", "rmsprop", 8), ("opt-125m", "sgd", 8), ("opt-350m", "momentum", 8),
    ("t5-small", "adafactor", 32), ("t5-base", "adamw", 16), ("llama-3.2-1b", "adamw", 2),
)


def answer(command):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1")
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"estimate_bench: {' '.join(command)}: {run.stderr.strip()[-500:]}") from None


def compare(combination, gpu):
    model, optimizer, batch = combination
    real = answer([EBBTIDE, "dryrun", "--json", "--gpu", gpu, "--", sys.executable, "-W", "ignore",
                   str(ROOT / "bench" / "_estimate_job.py"), model, optimizer, str(batch)])
    if real["exit_code"] != 0:
        raise SystemExit(f"estimate_bench: {model} with {optimizer} at batch {batch} ended with {real['exit_code']}")
    ours = answer([EBBTIDE, "estimate", "--json", "--gpu", gpu, model, "--optimizer", optimizer, "--batch-size", str(batch)])
    return real["peak_reserved_bytes"], ours["peak_reserved_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpu", default="a100-80gb")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="models that have this in their name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [c for c in COMBINATIONS if options.only in c[0]]
    if not chosen:
        raise SystemExit(f"estimate_bench: --only {options.only}: no combination has such a model")
    rows = []
    if not options.json:
        print(f"{'model':20} {'optimizer':>10} {'batch':>6} {'phantom':>9} {'estimate':>9} {'ratio':>7}   MiB reserved at the peak")
    with ThreadPoolExecutor(options.jobs) as pool:
        for (model, optimizer, batch), (real, ours) in zip(chosen, pool.map(lambda c: compare(c, options.gpu), chosen)):
            rows.append({"model": model, "optimizer": optimizer, "batch_size": batch, "phantom_bytes": real,
                         "estimate_bytes": ours})
            if not options.json:
                print(f"{model:20} {optimizer:>10} {batch:6} {real / MIB:9.0f} {ours / MIB:9.0f} {ours / real:7.4f}", flush=True)
    errors = sorted(abs(row["estimate_bytes"] / row["phantom_bytes"] - 1) for row in rows)
    figures = {"n": len(errors), "exact": sum(e == 0 for e in errors), "median_error": statistics.median(errors),
               "worst_error": errors[-1]}
    if options.json:
        print(json.dumps({"rows": rows, "summary": figures}, indent=1))
    else:
        print("{n} combinations, {exact} exact; error: median {median_error:.2%}, worst {worst_error:.2%}".format(**figures))


if __name__ == "__main__":
    main()
