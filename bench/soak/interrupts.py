"""interrupts.py [COUNT [NAME ...]]: Ctrl-C at COUNT random moments (1,000) of capture, measure, plan, prepare, step, compile, budget and Shared.run,
or of those that are named. Each must leave all as before or as after, go on as if nothing had been, and give its memory back; none may crash
or hang. Each subject runs in processes of its own, so that a crash is seen; the seed is printed.
"""

import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "tests" / "python"))

COUNT = 1000
AT_ONCE = 100  # interrupts to a process
LIMIT = 600  # seconds for one process: more is a hang
GROWTH = 64 << 20  # bytes of the process that caches and the allocator may take beside


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def work(name, count, seed):
    """In a process of its own."""
    import torch
    from support.interrupted import SUBJECTS, Presser

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
    moments = random.Random(seed)
    subject, twin, presser = SUBJECTS[name](), SUBJECTS[name](), Presser()
    torch.manual_seed(seed)

    length = 0.0

    def undisturbed(act):
        nonlocal length
        begin = time.perf_counter()
        act()
        length = time.perf_counter() - begin
        return False

    for _ in range(3):
        subject.interrupted(undisturbed, twin)
    came, before = 0, 0

    for number in range(count):
        try:
            came += subject.interrupted(lambda act: presser(moments.uniform(0, length), act), twin)
        except KeyboardInterrupt:  # just behind the act
            came += 1
            subject, twin = SUBJECTS[name](), SUBJECTS[name]()
            torch.manual_seed(seed)
        if number == count // 4:
            before = resident()
    grown = resident() - before
    if grown > GROWTH:
        sys.exit(f"{name}: the process has grown by {grown} bytes in {count - count // 4} interrupts")
    print(came)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    from support.interrupted import SUBJECTS

    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    failed = 0
    for name in sys.argv[2:] or SUBJECTS:
        came = 0
        for part, first in enumerate(range(0, count, AT_ONCE)):
            command = [sys.executable, str(HERE), "--work", name, str(min(AT_ONCE, count - first)), str(seed + part)]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=os.environ | {"OMP_NUM_THREADS": "1"})
                said = "" if ended.returncode == 0 else f"ended with {ended.returncode}: {(ended.stderr.strip().splitlines() or ['no word'])[-1]}"
            except subprocess.TimeoutExpired:
                ended, said = None, "hangs"
            if said:
                failed += 1
                print(f"{name}, seed {seed + part}: {said}")
            elif ended is not None:
                came += int(ended.stdout.split()[-1])
        print(f"{name}: {count} times Ctrl-C, {came} of them within the work", flush=True)
        if came == 0:
            failed += 1
    if failed:
        sys.exit(f"interrupts: {failed} processes failed")
    print("interrupts: all as before or as after")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
