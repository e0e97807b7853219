"""How soon Ctrl-C ends a job that Python calls in process: from the signal to the KeyboardInterrupt in the caller.

    build/python bench/run/interrupt_bench.py [--times N] [--only TEXT]

Each job is interrupted N times, at moments spread over its run, or over its first seconds where it takes longer. Prints the median and the
worst; `ended` counts the runs that were over before their signal came. LATE: the worst is above 0.2 s; LOST: the call returned as if there had been no
signal. Exits with 1 where there is either.
"""

import argparse
import math
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

from ebbtide import native

PROMISED = 0.2  # seconds
FIRST = 8.0  # seconds of a job in which it is interrupted
PATIENCE = 20  # seconds after which a job that goes on is given up
MIX = ["resnet152", "densenet169", "gpt2-medium", "inception_v3"]
MORE = 10**8  # evaluations: more than any job gets to


def write_items(path, count, length=10_000, height=1 << 30):
    """Items that a rectangle of time and memory was cut into: they fit into their live peak in one way, which is hard to find."""
    dice, pieces = random.Random(1), [(0, length, height)]
    while len(pieces) < count:
        lower, upper, size = pieces.pop(dice.randrange(len(pieces)))
        if dice.random() < 0.5 and upper - lower > 1:
            cut = dice.randrange(lower + 1, upper)
            pieces += [(lower, cut, size), (cut, upper, size)]
        else:
            cut = dice.randrange(1, size) if size > 1 else 0
            pieces += [(lower, upper, cut), (lower, upper, size - cut)] if cut else [(lower, upper, size)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\n")
        file.writelines(f"{number},{lower},{upper},{size}\n" for number, (lower, upper, size) in enumerate(pieces))
    return str(path)


def jobs(folder):
    hard, many = write_items(folder / "hard.csv", 400), write_items(folder / "many.csv", 50_000)
    batch = {"batch_size": 65_536}
    return {
        "plan resnet152 in 35%": lambda: native.plan("resnet152", budget="35%", evaluations=MORE),
        "plan densenet169 in 50%": lambda: native.plan("densenet169", budget="50%"),  # of 7 s, 5 are the lower bound's
        "plan gpt2-xl in 50%, compare": lambda: native.plan("gpt2-xl", budget="50%", gpu="a100-80gb", compare=True),
        "plan densenet169, pareto": lambda: native.plan("densenet169", budget="50%", pareto=True),
        "plan resnet50, exact": lambda: native.plan("resnet50", budget="50%", policy="exact"),
        "fit resnet152 with a plan": lambda: native.fit("resnet152", gpus=["v100-16gb"], with_plan=True),
        "share 3 x resnet50, max batch": lambda: native.share(["resnet50"] * 3, gpu="v100-16gb", max_batch=True),
        "share 4 mixed, max batch, compare": lambda: native.share(MIX, gpu="v100-16gb", max_batch=True, compare=True),
        "pack 400 items": lambda: native.pack(hard, evaluations=10**12),
        "pack 50,000 items": lambda: native.pack(many, evaluations=10**12),
        "estimate densenet169, too large": lambda: native.estimate("densenet169", gpu="t4", options=batch),
        "estimate gpt2-xl, too large": lambda: native.estimate("gpt2-xl", gpu="t4", options={"batch_size": 512}),
    }


def interrupted(call, delay):
    """(Seconds from a signal, sent `delay` after the start, to the KeyboardInterrupt, or None where the call returned first; seconds of the
    call). A call that returns as if nothing had been sent has lost the signal: endless seconds."""
    sent, over = [], threading.Event()

    def send():
        if over.wait(delay):
            return
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
        if not over.wait(PATIENCE):
            print(f"not ended {PATIENCE} s after a signal at {delay:.2f} s  LATE", flush=True)
            os._exit(1)

    helper = threading.Thread(target=send)
    # Anew each time: shells have it ignored in what runs in the background, and a job may have put something else there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = end = time.perf_counter()
    try:
        try:
            helper.start()
            call()
        finally:
            end = time.perf_counter()
            over.set()
        helper.join()  # a signal that was sent as the call returned is raised here at the latest
    except KeyboardInterrupt:
        took = max(0.0, end - sent[0])
    else:
        took = math.inf if sent else None
    helper.join()
    return took, end - begin


def measure(call, times):
    """Prints the rest of the job's row, and is whether it keeps the promise."""
    taken, ended = {}, 0
    took, length = interrupted(call, FIRST)
    runs = f"{length:.2f} s" if took is None else f"> {FIRST:.0f} s"
    if took is not None:
        taken[FIRST], length = took, FIRST
    for i in range(times):
        delay = length * (i + 0.5) / times
        took, _ = interrupted(call, delay)
        if took is None:
            ended += 1
        else:
            taken[delay] = took
    print(f"{runs:>10}{len(taken):7}{ended:7}", end="")
    if not taken:
        print(flush=True)
        return True
    worst = max(taken, key=taken.get)
    verdict = "" if taken[worst] <= PROMISED else "  LATE" if taken[worst] < math.inf else "  LOST"
    print(f"{statistics.median(taken.values()):8.3f} s{taken[worst]:8.3f} s{worst:6.2f} s{verdict}", flush=True)
    return not verdict


def in_child(work):
    """Whether `work`, in a process of its own, is true: one that hangs is ended without the others."""
    child = os.fork()
    if child == 0:
        os._exit(0 if work() else 1)
    return os.waitpid(child, 0)[1] == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--only", default="", metavar="TEXT", help="jobs whose names have it")
    options = parser.parse_args()
    late = []
    print(f"{'job':34}{'runs for':>10}{'times':>7}{'ended':>7}{'median':>10}{'worst':>10}{'at':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, call in jobs(pathlib.Path(folder)).items():
            if options.only in name:
                print(f"{name:34}", end="", flush=True)
                if not in_child(lambda: measure(call, options.times)):  # noqa: B023  # called at once
                    late.append(name)
    print(f"late: {', '.join(late)}" if late else f"all within {PROMISED} s")
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
