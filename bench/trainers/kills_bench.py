"""A search of 8 trials whose nodes with GPUs are killed 20 times, one at a time, while it runs; another comes each time.

    build/python bench/trainers/kills_bench.py [--kills 20]

Fails where a trial does not end, or ends with another loss than it has undisturbed in plain PyTorch, or fewer nodes than that were killed.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import torch  # noqa: E402
from _cluster import cluster_of  # noqa: E402
from _killer import Killer  # noqa: E402
from ray import tune  # noqa: E402
from support.ray_trials import losses_alone, step_fn  # noqa: E402

import ebbtide  # noqa: E402

STEPS, EACH = 300, 10  # of a trial; to a report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    Killer.wanted = parser.parse_args().kills
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, cluster_of(2, EBBTIDE_CACHE=os.path.join(folder, "cache")) as Killer.cluster:
        search = ebbtide.ray.SharedTuner(
            step_fn, capacity="16MiB", iterations=STEPS, report_every=EACH, device="cpu", by=["width"],
            param_space={"width": tune.grid_search([128, 192]), "lr": tune.grid_search([1e-2, 3e-3, 1e-3, 3e-4])},
            tune_config=tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=4),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[Killer()]))
        found = search.fit()
    wrong = [result.config for result in found if result.error or result.metrics["iterations"] != STEPS
             or result.metrics["loss"] != losses_alone(result.config, STEPS)[-1]]
    lost = sum(result.metrics["times_lost"] for result in found if result.metrics)
    print(f"{Killer.killed} nodes killed, trials taken elsewhere {lost} times; {len(found) - len(wrong)} of {len(found)} trials ended with the bits they "
          "have undisturbed")
    for config in wrong:
        print(f"wrong: {config}")
    return bool(wrong) or Killer.killed < Killer.wanted or not lost


if __name__ == "__main__":
    sys.exit(main())
