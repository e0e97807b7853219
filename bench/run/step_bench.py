"""What ebbtide.step does to real trainings on this machine's CPU, each as a ratio against plain PyTorch in the same run.

    step_bench.py same      every model x policy: 5 steps, every bit compared with plain PyTorch
    step_bench.py speed     the engine without a plan beside eager PyTorch
    step_bench.py slowdown  half of the memory, the ratio of computing to copying of a V100 on PCIe 3: ours, policies, PyTorch's own ways
    step_bench.py predict   predicted beside measured time
    step_bench.py batch     the largest batch in 1 GiB, plain and with a plan

All but `batch` with nothing named. --models a,b restricts them. One thread (OMP_NUM_THREADS=1)."""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import unittest.mock
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import torch  # noqa: E402
from _job import MEASURED, Job  # noqa: E402
from _slowdown import interleaved, link_of  # noqa: E402
from support import run_models  # noqa: E402
from support.replay import same_bits  # noqa: E402

POLICIES = [("none", None), ("home", "70%"), ("home", "50%"), ("home", "35%"), ("vdnn-all", "110%"), ("checkpoint-sqrt", "110%")]


def same(jobs):
    """Exits with 1 where a bit differs or a peak is above its budget."""
    right = True
    print(f"{'model':14} {'policy':16} {'budget':>8} {'of plain':>8} {'peak':>11} {'bits':>6} {'copied out':>11} {'recompute':>10}")
    for job in jobs:
        plain_model, plain_optimizer = job.trainer()
        torch.manual_seed(7)
        expected = [job.plain(plain_model, plain_optimizer) for _ in range(5)]
        random_state = torch.get_rng_state()
        for policy, budget in POLICIES:
            made = job.step(budget=budget, policy=policy)
            if made is None:
                print(f"{job.name:14} {policy:16} {budget:>8} no plan")
                continue
            model, optimizer, step = made
            torch.manual_seed(7)
            losses = [job.call(step) for _ in range(5)]
            equal = all(map(same_bits, losses, expected)) and torch.equal(torch.get_rng_state(), random_state)
            equal &= all(map(same_bits, model.state_dict().values(), plain_model.state_dict().values()))
            ours, theirs = optimizer.state_dict()["state"], plain_optimizer.state_dict()["state"]
            equal &= ours.keys() == theirs.keys() and all(same_bits(ours[i][k], theirs[i][k]) for i in theirs for k in theirs[i])
            report = step.report().to_dict()
            within = report["peak_bytes"] <= report["budget_bytes"]
            right &= equal and within
            print(f"{job.name:14} {policy:16} {budget or 'none':>8} {report['peak_bytes'] / report['plain_peak_bytes']:8.1%} "
                  f"{report['peak_bytes'] / 2**20:7.2f} MiB {'same' if equal else 'OTHER':>6} {report['copied_out_bytes'] / 2**20:7.2f} MiB "
                  f"{report['recompute_ns'] / report['time_ns']:10.1%}" + ("" if within else "  ABOVE THE BUDGET"), flush=True)
    return right


def speed(jobs):
    print(f"{'model':14} {'eager':>10} {'engine':>10} {'ratio':>6} (quartiles)")
    ratios = []
    for job in jobs:
        plain_model = job.trainer()
        _, _, step = job.step(policy="none")
        eager, engine = interleaved([lambda: job.plain(*plain_model), lambda: job.call(step)])
        ratios.append(engine.median / eager.median)
        print(f"{job.name:14} {eager.median * 1e3:7.2f} ms {engine.median * 1e3:7.2f} ms {ratios[-1]:6.3f} "
              f"({engine.lower / eager.median:.3f} to {engine.upper / eager.median:.3f})", flush=True)
    print(f"worst {max(ratios):.3f}: at most 1.03 is wanted")
    return max(ratios) <= 1.03


def predict(jobs):
    """Ops are timed anew for each, right before its steps: how fast the machine is may change from minute to minute."""
    errors = []
    print(f"{'model':14} {'budget':>7} {'predicted':>11} {'measured':>11} {'error':>7}")
    for job in jobs:
        plain_model = job.trainer()
        link = link_of(job, interleaved([lambda: job.plain(*plain_model)], seconds=2)[0].median)
        for budget in (None, "70%", "50%"):
            with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, EBBTIDE_CACHE=folder):
                _, _, step = job.step(budget=budget, link=link)
            times = []
            for _ in range(10):
                job.call(step)
                times.append(step.report().to_dict()["time_ns"])
            measured, predicted = statistics.median(times[2:]), step.report().to_dict()["predicted"]["time_ns"]
            errors.append(abs(predicted / measured - 1))
            print(f"{job.name:14} {budget or 'none':>7} {predicted / 1e6:8.2f} ms {measured / 1e6:8.2f} ms {predicted / measured - 1:+7.1%}", flush=True)
    print(f"median error {statistics.median(errors):.1%}: at most 10 % is wanted")
    return statistics.median(errors) <= 0.1


def batch(jobs):
    from _largest_batch import largest_batches

    return largest_batches([job.name for job in jobs])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], "same", "speed", "slowdown", "predict", "batch"])
    parser.add_argument("--models", default=",".join(run_models.ALL))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    right = True
    for part in options.parts or ["same", "speed", "slowdown", "predict"]:
        print(f"-- {part}")
        models = run_models.ALL if part == "same" else MEASURED
        right &= globals()[part]([Job(name, models) for name in options.models.split(",")]) is not False
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
