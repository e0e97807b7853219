"""Inductor's kernels within a budget, each as a ratio against Inductor without us in the same run, on this machine's CPU.

    inductor_bench.py same     every model at several budgets: 5 steps, every bit compared with the step without one
    inductor_bench.py speed    without a budget beside torch.compile(model): time of a step, and peak
    inductor_bench.py budget   in 70, 50 and 35 % of torch.compile's peak; and torch's activation_memory_budget, checkpointing under torch.compile and
                               our eager kernels, each beside ours in the memory that it takes
    inductor_bench.py prepare  how long the first start takes, beside torch.compile's, and the second

All with nothing named. --models a,b restricts them; --fallback-random has random numbers drawn by eager's kernels in all ways (torch._inductor.config). One
thread. The peers' optimizer is torch's own, as in loops that users write. Exits with 1 where a promise is broken: the same bits, no budget exceeded, at most
1.05 of Inductor's time and not above its peak, fastest at every point, at most 1.3 of the time to prepare and 5 s the second time."""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

import torch  # noqa: E402
import torch._inductor.config  # noqa: E402
from _job import MEASURED, Job  # noqa: E402
from _peers import BLOCKS, checkpointed, counted  # noqa: E402
from _slowdown import SAME, interleaved  # noqa: E402
from support import run_models  # noqa: E402
from support.replay import loss_of, same_bits  # noqa: E402

MIB = 2**20
SHARES = (0.7, 0.5, 0.35)
SETTINGS = (0.5, 0.1)  # of activation_memory_budget


def llama():
    return run_models._transformer("LlamaForCausalLM", num_hidden_layers=3, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=192)


def long_llama():
    model, loss_fn, _ = llama()
    tokens = torch.randint(5, 500, (8, 128))
    return model, loss_fn, {"input_ids": tokens, "labels": tokens.clone()}


def convnext():
    """ConvNeXt's blocks and widths in the proportions of its T, a third as wide and half as deep."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    model = ConvNeXt([CNBlockConfig(32, 64, 1), CNBlockConfig(64, 128, 1), CNBlockConfig(128, 256, 3), CNBlockConfig(256, None, 1)], num_classes=10)
    return model, torch.nn.functional.cross_entropy, (torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,)))


MODELS = {"gpt2": MEASURED["gpt2"], "bert": MEASURED["bert"], "llama": long_llama, "unet": MEASURED["unet"], "convnext": convnext,
          "resnet50": MEASURED["resnet50"]}
BLOCKS |= {"llama": ("LlamaDecoderLayer",), "convnext": ("CNBlock",)}


def whole(job, setting=1.0):
    """A step by torch.compile of model and loss."""
    from torch._functorch import config

    torch._dynamo.reset()
    model, optimizer = job.trainer()
    return _compiled(job, model, optimizer, config.patch(activation_memory_budget=setting))


def whole_with_checkpoints(job):
    """The same, with torch.utils.checkpoint around each block."""
    torch._dynamo.reset()
    kept, found = job.plain, []
    job.plain = lambda model, optimizer: found.append((model, optimizer))
    try:
        checkpointed(job)()
    finally:
        job.plain = kept
    return _compiled(job, *found[0], contextlib.nullcontext())


def _compiled(job, model, optimizer, settings):
    loss_and_model = torch.compile(lambda: loss_of(model, job.loss_fn, job.batch))

    def step():
        optimizer.zero_grad()
        loss = loss_and_model()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with settings:
        step()
    return step


def peak_of(make, job):
    """Of a way to train: parameters, state and batch included."""
    before = job.batch
    with counted() as peak:
        job.batch = {k: v.clone() for k, v in before.items()} if isinstance(before, dict) else tuple(t.clone() for t in before)
        step = make()
        step()
        step()
        most = peak()
    job.batch = before
    return most


def ours(job, budget, kernels="inductor"):
    """(call, report): in the smallest budget that works where that is larger."""
    _, _, step = job.step(budget=budget, kernels=kernels)
    job.call(step)
    return lambda: job.call(step), step.report().to_dict()


def same(job):
    right, expected = True, None
    for budget in (None, "70%", "50%", "35%"):
        model, optimizer, step = job.step(budget=budget, kernels="inductor")
        torch.manual_seed(7)
        losses = [job.call(step).clone() for _ in range(5)]
        state = [t.detach().clone() for t in model.state_dict().values()] + [losses[i] for i in range(5)]
        report = step.report().to_dict()
        step.close()
        expected = expected or state
        equal = all(map(same_bits, state, expected))
        within = report["peak_bytes"] <= report["budget_bytes"]
        right &= equal and within
        print(f"same     {job.name:9} {budget or 'none':>5} {report['peak_bytes'] / report['plain_peak_bytes']:7.1%} {report['peak_bytes'] / MIB:7.2f} MiB "
              f"{'same bits' if equal else 'OTHER BITS'}{'' if within else '  ABOVE THE BUDGET'}", flush=True)
    return right


def speed(job):
    theirs = whole(job)
    call, report = ours(job, None)
    eager, _ = ours(job, None, "eager")
    inductor, mine, own_eager = interleaved([theirs, call, eager])
    ratio, memory = mine.median / inductor.median, peak_of(lambda: whole(job), job)
    print(f"speed    {job.name:9} torch.compile {inductor.median * 1e3:7.2f} ms, ours {mine.median * 1e3:7.2f} ms: {ratio:.3f} "
          f"({mine.lower / inductor.median:.3f} to {mine.upper / inductor.median:.3f}); our eager kernels {own_eager.median / inductor.median:.3f}; "
          f"peak {memory / MIB:.2f} MiB, ours {report['peak_bytes'] / MIB:.2f} MiB", flush=True)
    return ratio <= 1.05 and report["peak_bytes"] <= memory


def budget(job):
    memory, right = peak_of(lambda: whole(job), job), True
    base = whole(job)
    for share in SHARES:
        call, report = ours(job, int(share * memory))
        plain, mine = interleaved([base, call])
        kept = report["budget_bytes"] <= int(share * memory)
        print(f"budget   {job.name:9} {share:4.0%} of torch.compile's peak: {'kept' if kept else 'no plan; the smallest is'} "
              f"{report['peak_bytes'] / memory:.1%}, "
              f"{mine.median / plain.median:.3f} of its time ({mine.lower / plain.median:.3f} to {mine.upper / plain.median:.3f})", flush=True)
        right &= report["peak_bytes"] <= report["budget_bytes"]
    peers = [(f"activation_memory_budget={s}", lambda s=s: whole(job, s)) for s in SETTINGS] + [("checkpoint", lambda: whole_with_checkpoints(job))]
    for name, make in peers:
        taken = peak_of(make, job)
        step = make()
        call, report = ours(job, taken)
        eager, eager_report = ours(job, taken, "eager")
        peer, mine, own_eager = interleaved([step, call, eager])
        fits, eager_fits = (said["peak_bytes"] <= taken for said in (report, eager_report))
        others = [(" THAN IT", peer), *([(" THAN OUR EAGER KERNELS", own_eager)] if eager_fits else [])]
        slower = [name for name, other in others if mine.median > SAME * other.median]
        verdict = f"  SLOWER{' AND'.join(slower)}" if slower else ""
        right &= not slower or not fits
        print(f"budget   {job.name:9} {name}: {taken / memory:.1%} of the peak, {peer.median * 1e3:.2f} ms; ours in {report['peak_bytes'] / memory:.1%} "
              f"{mine.median * 1e3:.2f} ms, with eager kernels in {eager_report['peak_bytes'] / memory:.1%} {own_eager.median * 1e3:.2f} ms{verdict}",
              flush=True)
    return right


def prepare(job):
    """Each in a process of its own, with empty caches; then ours again."""
    seconds = {}
    with tempfile.TemporaryDirectory() as ours_folder, tempfile.TemporaryDirectory() as their_folder:
        for way, folder in (("whole", their_folder), ("ours", ours_folder), ("again", ours_folder)):
            environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "EBBTIDE_CACHE": f"{folder}/ebbtide"}
            ran = subprocess.run([sys.executable, __file__, "prepare-one", "--models", job.name, "--way", way], env=environment, check=True,
                                 capture_output=True, text=True)
            seconds[way] = float(ran.stdout.split()[-1])
    ratio = seconds["ours"] / seconds["whole"]
    print(f"prepare  {job.name:9} torch.compile {seconds['whole']:6.1f} s, ours {seconds['ours']:6.1f} s: {ratio:.2f}; the second start "
          f"{seconds['again']:.1f} s", flush=True)
    return ratio <= 1.3 and seconds["again"] < 5


def prepare_one(job, way):
    started = time.perf_counter()
    if way == "whole":
        whole(job)
    else:
        ours(job, "70%")
    print(time.perf_counter() - started)
    return True


PARTS = {"same": same, "speed": speed, "budget": budget, "prepare": prepare}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "prepare-one"])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--way")
    parser.add_argument("--fallback-random", action="store_true", help="random numbers are eager's, in all ways")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch._inductor.config.fallback_random = given.fallback_random
    jobs = [Job(name, MODELS) for name in given.models.split(",")]
    if given.part == "prepare-one":
        return prepare_one(jobs[0], given.way)
    right = True
    for job in jobs:
        for name, part in PARTS.items():
            if given.part in (None, name):
                right &= part(job)
    print("all promises kept" if right else "a promise is broken: see above")
    return right


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
