"""A search by ebbtide.ray.SharedTuner on a cluster of Ray whose GPUs are phantoms: two nodes with a GPU each, trials on device cuda.

    build/python bench/soak/ray_phantom.py [--trials N]

Kernels are skipped on a phantom GPU, so losses say nothing; what is looked at is that every trial ends, by ASHA or by itself, that trials came to both GPUs,
and that no GPU's pool held more than its capacity. `step_fn` makes all on the CPU, as users write it: the head node, which places trials, has no GPU.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "trainers"))

import torch  # noqa: E402
from _cluster import cluster_of  # noqa: E402
from ray import tune  # noqa: E402

import ebbtide  # noqa: E402

STEPS, CAPACITY = 6, 256 << 20


def step_fn(config):
    width = config["width"]
    model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(width, 1))
    data = torch.utils.data.TensorDataset(torch.zeros(2048, 64), torch.zeros(2048, 1))
    return (model, torch.nn.functional.mse_loss, torch.optim.Adam(model.parameters(), config["lr"]), (torch.zeros(1024, 64), torch.zeros(1024, 1)),
            torch.utils.data.DataLoader(data, 1024, shuffle=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=12)
    options = parser.parse_args()
    libraries = pathlib.Path(os.environ.get("EBBTIDE_PHANTOM_LIBRARIES") or ROOT / "build" / "phantom") / "cu13"
    preload = ":".join(map(str, sorted(libraries.iterdir())))
    asha = tune.schedulers.ASHAScheduler(grace_period=2, max_t=STEPS, reduction_factor=2)
    with tempfile.TemporaryDirectory() as folder, cluster_of(2, LD_PRELOAD=preload, EBBTIDE_CACHE=os.path.join(folder, "cache")):
        os.mkdir(os.path.join(folder, "cache"), 0o700)
        search = ebbtide.ray.SharedTuner(
            step_fn, capacity=CAPACITY, iterations=STEPS, report_every=1, by=["width"],
            param_space={"width": tune.choice([256, 512, 1024]), "lr": tune.loguniform(1e-4, 1e-2)},
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=options.trials, scheduler=asha),
            run_config=tune.RunConfig(storage_path=folder, verbose=0))
        found = search.fit()
    failed = [str(result.error).splitlines()[-1] for result in found if result.error is not None]
    used = {result.metrics.get("gpu") for result in found if result.metrics}
    over = [gpu for gpu in search.report if gpu["peak_bytes"] > gpu["capacity_bytes"]]
    idle = [gpu for gpu in search.report if gpu["peak_bytes"] == 0]
    print(f"{len(found)} trials, {len(failed)} failed, on GPUs {sorted(used - {None})}; most of a pool held: "
          + ", ".join(f"{gpu['peak_bytes'] / 2**20:.0f} of {gpu['capacity_bytes'] / 2**20:.0f} MiB" for gpu in search.report))
    print("\n".join(failed))
    return bool(failed or over or idle or len(search.report) != 2)


if __name__ == "__main__":
    sys.exit(main())
