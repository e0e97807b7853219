"""1,000 programs under `ebbtide run --gpu-share`, on one phantom GPU, which refuses what is beyond its memory whoever asks for it.

  brokered.py [--starts N] [--torch N] [--seed S]

They come at random, take what they declared from the GPU, and end by themselves or are killed: the program alone, `ebbtide run` alone, both, or, one in
seven, before they have had their turn. `--torch` of them allocate by torch, the others call the driver. Fails where one is refused memory (over the card),
where one that was not killed has had no turn (starved), and where the whole card cannot be had in the end (a share lost).
"""

import argparse
import os
import pathlib
import random
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "ebbtide"
GPU, CARD_MIB, CONTEXT_MIB = "rtx3060", 12000, 512  # of the card a little less than it has, and more than a context takes of it
TOGETHER = 12
DOOMED = 1 / 7  # of the programs: they are killed before they have their memory, unless they are faster
LIGHT = """
import ctypes, sys
cuda, device, context, block = ctypes.CDLL(None), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDeviceGet(ctypes.byref(device), 0)
failed = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or cuda.cuCtxSetCurrent(context)
failed = failed or cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(sys.argv[1]) << 20))
print("refused" if failed else "has", flush=True)
sys.stdin.read()
"""
WITH_TORCH = """
import sys, torch
try:
    block = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
    print("has", flush=True)
except torch.cuda.OutOfMemoryError:
    print("refused", flush=True)
sys.stdin.read()
"""


class Run:
    """One `ebbtide run` and the program behind it."""

    def __init__(self, number, mib, code, folder, doomed=False):
        self.number, self.state, self.doomed = number, "waits", doomed
        words = [PROGRAM, "run", "--gpu-share", "--gpu", GPU, "--memory", f"{mib}MiB", "-q", "--", sys.executable, "-c", code, str(mib - CONTEXT_MIB)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                        env={**os.environ, "EBBTIDE_SHARE_FOLDER": folder})

    def end(self, way):
        """`way`: asked, program, broker or both. What is left of it ends when its standard input does."""
        if way == "both":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif way == "broker":
            self.process.kill()
        elif way == "program":
            for child in _children(self.process.pid):
                os.kill(child, signal.SIGKILL)
        self.process.stdin.close()


def _children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def drive(options):
    rng, folder = random.Random(options.seed), tempfile.mkdtemp(prefix="ebbtide-brokered-")
    with_torch = set(rng.sample(range(options.starts), min(options.torch, options.starts)))
    events, running, started = selectors.DefaultSelector(), {}, 0
    counts = dict.fromkeys(("has", "killed while waiting", "refused", "asked", "program", "broker", "both"), 0)

    def ended(run):
        events.unregister(run.process.stdout)
        run.process.stdout.close()
        run.process.wait()
        del running[run.number]

    while started < options.starts or running:
        while started < options.starts and len(running) < TOGETHER:
            run = Run(started, rng.randrange(CONTEXT_MIB + 64, CARD_MIB // rng.choice((1, 2, 4, 8))), WITH_TORCH if started in with_torch else LIGHT, folder,
                      doomed=rng.random() < DOOMED)
            running[started] = run
            events.register(run.process.stdout, selectors.EVENT_READ, run)
            started += 1
        for key, _ in events.select(timeout=0.05):
            run = key.data
            line = run.process.stdout.readline().strip()
            if line == "":  # its output has ended, and all that had it
                ended(run)
                continue
            run.state = line
            counts[line] += 1
        for run in [r for r in running.values() if r.state == "has"]:
            if rng.random() < 0.4:
                way = rng.choice(("asked", "program", "broker", "both"))
                counts[way] += 1
                run.state = "ends"
                run.end(way)
        waiting = [r for r in running.values() if r.state == "waits" and r.doomed]
        if waiting and rng.random() < 0.3:
            counts["killed while waiting"] += 1
            run = rng.choice(waiting)
            run.state = "ends"
            run.end("both")
    last = Run(-1, CARD_MIB, LIGHT, folder)
    counts["whole card in the end"] = last.process.stdout.readline().strip()
    last.end("asked")
    last.process.wait()
    shutil.rmtree(folder)
    print(f"brokered: {started} starts, {len(with_torch)} with torch: {counts}")
    return 0 if counts["refused"] == 0 and counts["whole card in the end"] == "has" and counts["has"] + counts["killed while waiting"] >= started else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--torch", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on-phantom", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.on_phantom:
        return drive(options)
    return subprocess.run([PROGRAM, "dryrun", "--gpu", GPU, "-q", "--", sys.executable, __file__, "--on-phantom", "--starts", str(options.starts),
                           "--torch", str(options.torch), "--seed", str(options.seed)]).returncode


if __name__ == "__main__":
    sys.exit(main())
