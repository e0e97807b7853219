"""Estimates beside the phantom GPU, on which PyTorch's own allocator runs the same training: peak reserved bytes.

    build/python bench/estimate/phantom_bench.py [--gpu NAME] [--jobs N] [--only TEXT] [--json]

Each combination is a plain loop of three iterations (bench/estimate/_phantom_job.py): optimizers have torch's defaults, weights are
float32, and gradients are set to none when an iteration begins, unless a flag says otherwise. The exit code is 1 where an estimate is further off
than docs/estimate.md says of the worst."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
MIB = 2**20
WORST = 0.01  # the error that is promised of every combination
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
    # Small batches and other sizes, where what is rounded and kept weighs most.
    ("resnet18", "sgd", 1), ("resnet50", "adam", 2), ("resnet50", "adagrad", 7, "--image-size", "160"), ("vgg16", "rmsprop", 4),
    ("densenet121", "momentum", 8), ("mobilenet_v2", "adamw", 16), ("convnext_tiny", "sgd", 8), ("mlp", "rmsprop", 4096),
    ("unet", "sgd", 1, "--image-size", "256"), ("lstm", "adagrad", 5), ("bert-base", "sgd", 2), ("t5-small", "adam", 4),
    ("gpt2", "sgd", 1, "--seq-len", "256"), ("distilgpt2", "momentum", 4, "--seq-len", "1024"),
    ("opt-125m", "adamw", 2, "--seq-len", "384"), ("llama-3.2-1b", "sgd", 1, "--seq-len", "256"),
    # Other loops.
    ("resnet50", "adam", 32, "--zero-grad", "before-backward"), ("resnet50", "adam", 32, "--zero-grad", "end"),
    ("bert-base", "adamw", 8, "--zero-grad", "before-backward"), ("distilgpt2", "sgd", 8, "--zero-grad", "end"),
    ("resnet50", "none", 64, "--inference"), ("gpt2", "none", 8, "--inference"), ("lstm", "none", 20, "--inference"),
    ("resnet50", "adam", 32, "--autocast", "bf16"), ("vgg16", "sgd", 32, "--autocast", "bf16"),
    ("bert-base", "adamw", 16, "--autocast", "bf16"), ("gpt2", "adamw", 8, "--autocast", "bf16"),
    ("lstm", "adam", 20, "--autocast", "bf16"),
    # Another allocator.
    ("resnet50", "adam", 32, "--alloc-conf", "expandable_segments:True"),
    ("convnext_tiny", "adamw", 16, "--alloc-conf", "expandable_segments:True"),
    ("gpt2", "adamw", 8, "--alloc-conf", "expandable_segments:True"),
    ("vgg16", "momentum", 32, "--alloc-conf", "max_split_size_mb:64"),
)


def answer(command, **environment):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1", **environment)
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"phantom_bench: {' '.join(command)}: {run.stderr.strip()[-500:]}") from None


def compare(combination, gpu):
    """(phantom's, estimate's) peak reserved bytes."""
    model, optimizer, batch, *flags = combination
    environment, job_flags = {}, flags
    if flags[:1] == ["--alloc-conf"]:
        environment, job_flags = {"PYTORCH_ALLOC_CONF": flags[1]}, []
    real = answer([EBBTIDE, "dryrun", "--json", "--gpu", gpu, "--", sys.executable, "-W", "ignore",
                   str(ROOT / "bench" / "estimate" / "_phantom_job.py"), model, optimizer, str(batch), *job_flags], **environment)
    if real["exit_code"] != 0:
        raise SystemExit(f"phantom_bench: {name_of(combination)} ended with {real['exit_code']}")
    update = [] if "--inference" in flags else ["--optimizer", optimizer]
    ours = answer([EBBTIDE, "estimate", "--json", "--gpu", gpu, model, *update, "--batch-size", str(batch), *flags])
    return real["peak_reserved_bytes"], ours["peak_reserved_bytes"]


def name_of(combination):
    return " ".join(str(word) for word in combination)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpu", default="a100-80gb")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="models that have this in their name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = [c for c in COMBINATIONS if options.only in c[0]]
    if not chosen:
        raise SystemExit(f"phantom_bench: --only {options.only}: no combination has such a model")
    rows = []
    if not options.json:
        print(f"{'model, optimizer, batch':64} {'phantom':>9} {'estimate':>9} {'ratio':>7}   MiB reserved at the peak")
    with ThreadPoolExecutor(options.jobs) as pool:
        for combination, (real, ours) in zip(chosen, pool.map(lambda c: compare(c, options.gpu), chosen)):
            model, optimizer, batch, *flags = combination
            rows.append({"model": model, "optimizer": optimizer, "batch_size": batch, "flags": flags, "phantom_bytes": real,
                         "estimate_bytes": ours})
            if not options.json:
                print(f"{name_of(combination):64} {real / MIB:9.0f} {ours / MIB:9.0f} {ours / real:7.4f}", flush=True)
    errors = sorted((abs(row["estimate_bytes"] / row["phantom_bytes"] - 1), name_of(c)) for row, c in zip(rows, chosen))
    figures = {"n": len(errors), "exact": sum(e == 0 for e, _ in errors),
               "median_error": statistics.median(e for e, _ in errors), "worst_error": errors[-1][0], "worst": errors[-1][1]}
    if options.json:
        print(json.dumps({"rows": rows, "summary": figures}, indent=1))
    else:
        print("{n} combinations, {exact} exact; error: median {median_error:.2%}, worst {worst_error:.2%} ({worst})".format(
            **figures))
    return 0 if figures["worst_error"] <= WORST else 1


if __name__ == "__main__":
    sys.exit(main())
