"""What ebbtide.step does to real trainings on this machine's CPU, each as a ratio against plain PyTorch in the same run.

    run_bench.py same      every model x policy: 5 steps, every bit compared with plain PyTorch
    run_bench.py speed     the engine without a plan beside eager PyTorch
    run_bench.py slowdown  half of the memory, the ratio of computing to copying of a V100 on PCIe 3: policies, executed
    run_bench.py predict   predicted beside measured time
    run_bench.py batch     the largest batch in 1 GiB, plain and with a plan

All but `batch` with nothing named. --models a,b restricts them. One thread (OMP_NUM_THREADS=1)."""

import argparse
import copy
import os
import pathlib
import statistics
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))

import torch  # noqa: E402
import run_models  # noqa: E402
from replay import loss_of, same_bits  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide.capture_step import capture_step  # noqa: E402
from ebbtide.step_plan import BudgetError, make_plan  # noqa: E402

POLICIES = [("none", None), ("home", "70%"), ("home", "50%"), ("home", "35%"), ("vdnn-all", "110%"), ("checkpoint-sqrt", "110%")]
PCIE3, V100 = 12e9, "v100-16gb"


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


OPTIMIZERS = {"cnn": torch.optim.Adam, "bert": torch.optim.AdamW, "gpt2": torch.optim.Adam, "unet": torch.optim.RMSprop,
              "densenet121": torch.optim.Adagrad}


class Job:
    def __init__(self, name):
        torch.manual_seed(0)
        self.name = name
        self.start, self.loss_fn, self.batch = run_models.ALL[name]()
        self.make_optimizer = OPTIMIZERS.get(name, momentum)

    def trainer(self):
        model = copy.deepcopy(self.start)
        return model, self.make_optimizer(model.parameters())

    def step(self, **options):
        """The step, or None where the policy finds no plan; for home the smallest budget that works, then."""
        model, optimizer = self.trainer()
        try:
            return model, optimizer, ebbtide.step(model, self.loss_fn, optimizer, self.batch, **options)
        except BudgetError as error:
            if options.get("policy", "home") != "home":
                return None
            options["budget"] = error.minimum_budget_bytes
            return model, optimizer, ebbtide.step(model, self.loss_fn, optimizer, self.batch, **options)

    def call(self, step):
        return step(self.batch) if isinstance(self.batch, dict) else step(*self.batch)

    def plain(self, model, optimizer):
        optimizer.zero_grad()
        loss = loss_of(model, self.loss_fn, self.batch)
        loss.backward()
        optimizer.step()
        return loss.detach()


def same(jobs):
    """Exits with 1 where a bit differs or a peak is above its budget."""
    right = True
    print(f"{'model':14} {'policy':16} {'budget':>8} {'of plain':>8} {'peak':>11} {'bits':>6} {'copied out':>11} {'recompute':>10}")
    for job in jobs:
        twin, twins_optimizer = job.trainer()
        torch.manual_seed(7)
        expected = [job.plain(twin, twins_optimizer) for _ in range(5)]
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
            equal &= all(map(same_bits, model.state_dict().values(), twin.state_dict().values()))
            ours, theirs = optimizer.state_dict()["state"], twins_optimizer.state_dict()["state"]
            equal &= ours.keys() == theirs.keys() and all(same_bits(ours[i][k], theirs[i][k]) for i in theirs for k in theirs[i])
            report = step.report().to_dict()
            within = report["peak_bytes"] <= report["budget_bytes"]
            right &= equal and within
            print(f"{job.name:14} {policy:16} {budget or 'none':>8} {report['peak_bytes'] / report['plain_peak_bytes']:8.1%} "
                  f"{report['peak_bytes'] / 2**20:7.2f} MiB {'same' if equal else 'OTHER':>6} {report['copied_out_bytes'] / 2**20:7.2f} MiB "
                  f"{report['recompute_ns'] / report['time_ns']:10.1%}" + ("" if within else "  ABOVE THE BUDGET"), flush=True)
    return right


def interleaved(functions, seconds=6.0, least=5):
    """The median seconds of each, called in turn, so that what else the machine does falls on all alike."""
    for function in functions:
        function()
    times = [[] for _ in functions]
    started = time.perf_counter()
    while time.perf_counter() - started < seconds or len(times[0]) < least:
        for function, each in zip(functions, times):
            begun = time.perf_counter()
            function()
            each.append(time.perf_counter() - begun)
    return [statistics.median(each) for each in times]


def speed(jobs):
    print(f"{'model':14} {'eager':>10} {'engine':>10} {'ratio':>6}")
    ratios = []
    for job in jobs:
        twin = job.trainer()
        _, _, step = job.step(policy="none")
        eager, engine = interleaved([lambda: job.plain(*twin), lambda: job.call(step)])
        ratios.append(engine / eager)
        print(f"{job.name:14} {eager * 1e3:7.2f} ms {engine * 1e3:7.2f} ms {ratios[-1]:6.3f}", flush=True)
    print(f"worst {max(ratios):.3f}: at most 1.03 is wanted")
    return max(ratios) <= 1.03


def link_of(job, eager_seconds):
    """Bytes per second that are to this CPU as PCIe 3 is to a V100."""
    model, optimizer = job.trainer()
    graph = capture_step(model, job.loss_fn, optimizer, job.batch, device="cpu").graph
    said = make_plan(graph, "1000%", "none", PCIE3, gpu=V100).said
    return PCIE3 * said["plain_time_ns"] / 1e9 / eager_seconds


def slowdown(jobs):
    print(f"{'model':14} {'budget':>7} {'link':>12} " + " ".join(f"{p:>16}" for p in ("home", "vdnn-all", "capuchin", "checkpoint-sqrt", "dtr")))
    for job in jobs:
        twin = job.trainer()
        plain = min(interleaved([lambda: job.plain(*twin)], seconds=2))
        link = link_of(job, plain)
        _, _, none = job.step(policy="none")
        half = job.step(budget="50%", link=link)[2]
        budget = half._pool.capacity
        share = budget / next(iter(half._plans.values())).planned.said["plain_peak_bytes"]
        steps, names = [none, half], ["none", "home"]
        for policy in ("vdnn-all", "capuchin", "checkpoint-sqrt", "dtr"):
            made = job.step(budget=budget, link=link, policy=policy)
            if made is not None:
                steps.append(made[2])
                names.append(policy)
        medians = dict(zip(names, interleaved([lambda step=step: job.call(step) for step in steps])))
        cells = []
        for policy in ("home", "vdnn-all", "capuchin", "checkpoint-sqrt", "dtr"):
            cells.append(f"{medians[policy] / medians['none']:15.3f}x" if policy in medians else f"{'no plan':>16}")
        print(f"{job.name:14} {share:7.1%} {link / 1e6:7.1f} MB/s " + " ".join(cells), flush=True)


def predict(jobs):
    errors = []
    print(f"{'model':14} {'budget':>7} {'predicted':>11} {'measured':>11} {'error':>7}")
    for job in jobs:
        for budget in (None, "60%", "50%"):
            _, _, step = job.step(budget=budget)
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
    from _run_batch import largest_batches

    return largest_batches([job.name for job in jobs])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], "same", "speed", "slowdown", "predict", "batch"])
    parser.add_argument("--models", default=",".join(run_models.ALL))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    jobs = [Job(name) for name in options.models.split(",")]
    right = True
    for part in options.parts or ["same", "speed", "slowdown", "predict"]:
        print(f"-- {part}")
        right &= globals()[part](jobs) is not False
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
