"""A search of 24 trials (three families of models, two sizes, four learning rates) by ASHA on two logical GPUs of 1 GiB on two nodes of Ray, trials on the CPU:
a GPU for each trial, shares of a GPU that were guessed, `ebbtide.ray.resources`, `ebbtide.ray.SharedTuner`.

    build/python bench/trainers/search_bench.py [--runs 3]

Trials of the first three are functions as users write them for Tune, in a process each, with plain PyTorch. As nothing limits the memory of such a process
on the CPU, a card is a file that counts bytes: a training is charged its plain peak when it begins, and is out of memory where the card has not that
much. A SharedTuner's GPU is a pool of 1 GiB. Medians of interleaved runs; what the first
measures and plans is kept for the others, as it is for users. Fails where one of ours runs out of memory,
loses a trial or has other numbers than plain PyTorch alone; and where SharedTuner is not the fastest way that finishes every trial.
"""

import argparse
import contextlib
import fcntl
import json
import os
import statistics
import sys
import tempfile
import time
import warnings

warnings.simplefilter("ignore")

import ray  # noqa: E402
import torch  # noqa: E402
from _cluster import cluster_of  # noqa: E402
from _trials import MAKERS, losses_of, step_fn  # noqa: E402
from ray import tune  # noqa: E402

import ebbtide  # noqa: E402

STEPS, CAPACITY = 4, 1 << 30
SPACE = {"family": tune.grid_search(list(MAKERS)), "size": tune.grid_search(["small", "large"]), "lr": tune.grid_search([1e-2, 3e-3, 1e-3, 1e-4])}
KINDS = ["family", "size"]
GUESSED = 1 / 3  # of a card, for every trial


@contextlib.contextmanager
def memory_of(folder, needed):
    """So many bytes of this trial's card, for as long as it runs."""
    path = os.path.join(folder, f"{ray.get_runtime_context().get_node_id()}-{ray.get_gpu_ids()[0]}")

    def change(by):
        with open(path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            taken = int(file.read() or 0) + by
            if taken > CAPACITY:
                raise torch.OutOfMemoryError(f"{taken - CAPACITY} bytes more than the card has")
            file.truncate(0)
            file.write(str(taken))

    change(needed)
    try:
        yield
    finally:
        change(-needed)


def train_function(folder, peaks):
    def train(config):
        torch.set_num_threads(1)
        with memory_of(folder, peaks[f"{config['family']} {config['size']}"]):
            for number, loss in enumerate(losses_of(config, STEPS), 1):
                tune.report({"loss": loss, "iterations": number})

    return train


def settings(folder):
    asha = tune.schedulers.ASHAScheduler(grace_period=1, max_t=STEPS, reduction_factor=2)
    return (tune.TuneConfig(metric="loss", mode="min", scheduler=asha), tune.RunConfig(storage_path=folder, verbose=0))


def exclusive(folder, peaks):
    config, run = settings(folder)
    return tune.Tuner(tune.with_resources(train_function(folder, peaks), {"cpu": 1, "gpu": 1}), param_space=SPACE, tune_config=config, run_config=run).fit()


def guessed(folder, peaks):
    config, run = settings(folder)
    return tune.Tuner(tune.with_resources(train_function(folder, peaks), {"cpu": 1, "gpu": GUESSED}), param_space=SPACE, tune_config=config,
                      run_config=run).fit()


def by_resources(folder, peaks):
    config, run = settings(folder)
    wanted = ebbtide.ray.resources(step_fn, capacity=CAPACITY, by=KINDS)
    return tune.Tuner(wanted.wrap(train_function(folder, peaks)), param_space=SPACE, tune_config=config, run_config=run).fit()


def shared(folder, peaks):
    config, run = settings(folder)
    config.max_concurrent_trials = 4
    return ebbtide.ray.SharedTuner(step_fn, capacity=CAPACITY, iterations=STEPS, report_every=1, save_every=STEPS, param_space=SPACE, device="cpu",
                                   by=KINDS, tune_config=config, run_config=run).fit()


WAYS = {"exclusive": exclusive, "guessed shares": guessed, "resources": by_resources, "SharedTuner": shared}


def configs():
    return [{"family": family, "size": size, "lr": lr} for family in MAKERS for size in ("small", "large") for lr in (1e-2, 3e-3, 1e-3, 1e-4)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--keep", help="a file in which runs are kept, so that several calls of the bench make one")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = ebbtide.ray.resources(step_fn, capacity=CAPACITY, by=KINDS)
    peaks = {f"{config['family']} {config['size']}": wanted.predict(config, wanted.cards[0]) for config in configs()}
    print("plain peaks: " + ", ".join(f"{name} {peak / 2**20:.0f} MiB" for name, peak in peaks.items()), flush=True)
    ways = options.ways.split(",")
    times, figures = {way: [] for way in ways}, {way: {"finished": [], "out of memory": [], "other numbers": [], "steps": []} for way in ways}
    alone, cache = None, f"{options.keep}.cache" if options.keep else tempfile.mkdtemp()
    if options.keep and os.path.exists(options.keep):
        with open(options.keep) as file:
            times, figures, alone = json.load(file)
    alone = alone or {json.dumps(config, sort_keys=True): list(losses_of(config, STEPS)) for config in configs()}
    os.makedirs(cache, mode=0o700, exist_ok=True)
    os.environ["EBBTIDE_CACHE"] = cache
    for _ in range(options.runs):
        for way in ways:
            with tempfile.TemporaryDirectory() as folder, cluster_of(2, EBBTIDE_CACHE=cache):
                begun = time.perf_counter()
                found = WAYS[way](folder, peaks)
                times[way].append(time.perf_counter() - begun)
                done = [result for result in found if result.error is None]
                figures[way]["finished"].append(len(done))
                figures[way]["out of memory"].append(sum("OutOfMemoryError" in str(result.error) for result in found if result.error is not None))
                figures[way]["other numbers"].append(sum(
                    result.metrics["loss"] != alone[json.dumps(result.config, sort_keys=True)][result.metrics["iterations"] - 1] for result in done))
                figures[way]["steps"].append(sum(result.metrics["iterations"] for result in done))
                print(f"{way}: {times[way][-1]:.1f} s, {figures[way]['finished'][-1]} of {len(found)} finished, "
                      f"{figures[way]['out of memory'][-1]} out of memory, {figures[way]['other numbers'][-1]} with other numbers, "
                      f"{figures[way]['steps'][-1]} steps", flush=True)
            if options.keep:
                with open(options.keep, "w") as file:
                    json.dump([times, figures, alone], file)
    print(f"\n{'way':16}{'median':>10}{'least':>10}{'most':>10}{'finished':>10}{'out of memory':>15}")
    for way in ways:
        print(f"{way:16}{statistics.median(times[way]):>8.1f} s{min(times[way]):>8.1f} s{max(times[way]):>8.1f} s{min(figures[way]['finished']):>10}"
              f"{max(figures[way]['out of memory']):>15}")
    faults = [f"{way}: {name}" for way in ways if way in ("resources", "SharedTuner") for name, fault in (
        ("a trial was lost", min(figures[way]["finished"]) < len(alone)), ("out of memory", any(figures[way]["out of memory"])),
        ("other numbers", any(figures[way]["other numbers"]))) if fault]
    whole = [way for way in ways if min(figures[way]["finished"]) == len(alone)]
    if "SharedTuner" in ways and "SharedTuner" != min(whole, key=lambda way: statistics.median(times[way]), default=None):
        faults.append("SharedTuner is not the fastest way that finishes every trial")
    print("; ".join(faults) or "ours lose no trial, have the numbers of plain PyTorch alone, and SharedTuner is the fastest that finishes every trial")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
