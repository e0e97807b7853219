"""torch.compile(model, backend="ebbtide") and `with ebbtide.budget(...)` beside plain PyTorch, in the same run.

    compile_bench.py same    every model x budget: 5 steps of an ordinary loop, every bit compared with plain PyTorch
    compile_bench.py amp     the same under autocast to bfloat16
    compile_bench.py ddp     two gloo ranks, compiled inside and outside of DistributedDataParallel
    compile_bench.py speed   the backend without a budget beside eager PyTorch, and at half of the memory
    compile_bench.py eager   the context: the smallest of ten limits that holds, and its slowdown

All with nothing named. --models a,b restricts them. One thread (OMP_NUM_THREADS=1). Exits with 1 where a bit differs or a
peak is above its budget."""

import argparse
import copy
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import torch  # noqa: E402
from support import run_models  # noqa: E402
from support.replay import loss_of, same_bits  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import BudgetError  # noqa: E402
from ebbtide.compile.backend import reports  # noqa: E402

BUDGETS = (None, "70%", "50%", "35%")
MODELS = ("cnn", "vgg16", "resnet50", "inception_v3", "densenet121", "unet", "lstm", "bert", "gpt2")


class Loop:
    """Trains copies of one model in an ordinary loop."""

    def __init__(self, name, autocast=None):
        torch.manual_seed(0)
        self.start, self.loss_fn, self.batch = run_models.ALL[name]()
        self.autocast = autocast

    def train(self, wrap, steps=5, times=None):
        """The model, the losses and the random state after `steps`."""
        model = copy.deepcopy(self.start)
        call = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        torch.manual_seed(7)
        losses = []
        for _ in range(steps):
            begin = time.perf_counter()
            optimizer.zero_grad()
            with torch.autocast("cpu", self.autocast, enabled=self.autocast is not None):
                loss = loss_of(call, self.loss_fn, self.batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
            if times is not None:
                times.append(time.perf_counter() - begin)
        return model, losses, torch.get_rng_state()

    def compiled(self, budget, **how):
        """As `train`, with the budget, or the smallest that works; and what the graph reports."""
        torch._dynamo.reset()
        try:
            return *self.train(lambda m: torch.compile(m, backend="ebbtide", options={"budget": budget}), **how), reports()[-1]
        except BudgetError as error:
            if error.minimum_budget_bytes is None:
                raise
            return self.compiled(error.minimum_budget_bytes, **how)


def is_same(found, expected):
    (model, losses, state), (plain_model, other, kept) = found, expected
    return (all(same_bits(a, b) for a, b in zip(losses, other)) and torch.equal(state, kept)
            and all(same_bits(a, b) for a, b in zip(model.state_dict().values(), plain_model.state_dict().values())))


def same(models, autocast=None):
    right = True
    print(f"{'model':14} {'budget':>7} {'of plain':>8} {'peak':>11} {'copied out':>11} {'recompute':>10}  bits")
    for name in models:
        loop = Loop(name, autocast)
        expected = loop.train(lambda m: m)
        for budget in BUDGETS:
            *found, report = loop.compiled(budget)
            good = is_same(found, expected) and report["peak_bytes"] <= report["budget_bytes"]
            right = right and good
            print(f"{name:14} {budget or 'none':>7} {report['peak_bytes'] / report['plain_peak_bytes']:>8.1%} {report['peak_bytes']:>11,} "
                  f"{report['copied_out_bytes']:>11,} {report['recompute_ns'] / 1e6:>7.1f} ms  {'same' if good else 'DIFFERENT'}", flush=True)
    return right


def amp(models):
    return same([name for name in models if name in ("cnn", "resnet50", "bert")], torch.bfloat16)


_RANK = """
import copy, sys, torch
sys.path.insert(0, sys.argv[4])
from support import run_models
from support.replay import loss_of
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
start, loss_fn, batch = run_models.ALL[sys.argv[3]]()
compiled = lambda m: torch.compile(m, backend="ebbtide", options={"budget": "80%"})
ends = []
for wrap in (DDP, lambda m: DDP(compiled(m)), lambda m: compiled(DDP(m))):
    torch._dynamo.reset()
    torch._dynamo.config.optimize_ddp = False  # else the model is split by buckets
    model = copy.deepcopy(start)
    call = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(10 + rank)
    for _ in range(5):
        mine = {k: v.roll(rank, 0) for k, v in batch.items()} if isinstance(batch, dict) else tuple(v.roll(rank, 0) for v in batch)
        optimizer.zero_grad()
        loss_of(call, loss_fn, mine).backward()
        optimizer.step()
    ends.append([v.clone() for v in model.state_dict().values()])
same = [all(torch.equal(a, b) for a, b in zip(ends[0], other)) for other in ends[1:]]
if rank == 0:
    print(f"{sys.argv[3]:14} compiled inside: {'same' if same[0] else 'DIFFERENT'}, outside: {'same' if same[1] else 'DIFFERENT'}", flush=True)
dist.destroy_process_group()
sys.exit(0 if all(same) else 1)
"""


def ddp(models):
    """Two ranks with batches of their own: parameters after 5 steps beside plain DistributedDataParallel."""
    right = True
    for name in (name for name in models if name in ("cnn", "resnet50", "bert")):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _RANK]
            rest = [os.path.join(folder, "meeting"), name, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python")]
            ranks = [subprocess.Popen([*command, str(rank), *rest], stderr=subprocess.PIPE, text=True) for rank in range(2)]
            for rank in ranks:
                _, said = rank.communicate()
                if rank.returncode != 0:
                    right = False
                    print(said[-1000:], file=sys.stderr)
    return right


def speed(models):
    print(f"{'model':14} {'eager':>10} {'no budget':>10} {'50 %':>10}")
    for name in models:
        loop, row = Loop(name), []
        for budget in ("eager", None, "50%"):
            times = []
            loop.train(lambda m: m, 8, times) if budget == "eager" else loop.compiled(budget, steps=8, times=times)
            row.append(statistics.median(times[-6:]))
        print(f"{name:14} {row[0] * 1e3:>7.1f} ms {row[1] / row[0]:>9.3f}x {row[2] / row[0]:>9.3f}x", flush=True)
    return True


def eager(models):
    """Tenths of the plain peak: the smallest at which the context holds."""
    right = True
    print(f"{'model':14} {'plain peak':>12} {'smallest':>9} {'peak':>12} {'time':>7}  bits")
    for name in models:
        loop, plain = Loop(name), []
        with ebbtide.budget("1TiB", device="cpu") as free:
            expected = loop.train(lambda m: m, times=plain)
        peak = free.report()["peak_bytes"]
        best = None
        for tenths in range(9, 0, -1):
            times = []
            try:
                with ebbtide.budget(peak * tenths // 10, device="cpu") as budget:
                    found = loop.train(lambda m: m, times=times)
            except torch.OutOfMemoryError:
                break
            report = budget.report()
            right = right and is_same(found, expected) and report["peak_bytes"] <= report["budget_bytes"]
            best = tenths, report["peak_bytes"], statistics.median(times[1:]) / statistics.median(plain[1:]), is_same(found, expected)
        if best:
            print(f"{name:14} {peak:>12,} {best[0] * 10:>7} % {best[1]:>12,} {best[2]:>6.2f}x  {'same' if best[3] else 'DIFFERENT'}", flush=True)
        else:
            print(f"{name:14} {peak:>12,} none below the plain peak", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["same", "amp", "ddp", "speed", "eager"])
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True  # else nn.LSTM stays outside the graph
    right = True
    for part in options.parts or ["same", "amp", "ddp", "speed", "eager"]:
        print(f"-- {part}")
        right = globals()[part](options.models) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
