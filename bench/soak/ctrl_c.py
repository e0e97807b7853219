"""Ctrl-C at moments of every verb: exit code 130, one line, within a second, nothing left behind.

    build/python bench/soak/ctrl_c.py [MOMENTS]     moments per verb, 8 if not given

SIGINT goes to the program and all that it has started, as a terminal sends it, at moments spread over the first seconds of the verb. What had ended by
then by itself is not counted. Fails where a line is missing or too many, a code is another, a folder stays, or an end takes longer than a second.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = str(ROOT / "build" / "ebbtide")
LIMIT = 1.0  # seconds
SCRIPT = """from torch import empty, nn, optim
def step(batch_size=64):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(24)])
    return model, nn.functional.mse_loss, optim.Adam(model.parameters()), (empty(batch_size, 512), empty(batch_size, 512))
"""
# The verb, and the seconds in which moments are chosen.
CASES = [
    (["plan", "densenet121", "--batch-size", "64", "--budget", "30%", "--compare", "--pareto"], 3.0),
    (["fit", "resnet50", "--with-plan"], 3.0),
    (["share", "resnet50:64", "densenet121:64", "--gpu", "v100-16gb", "--compare"], 3.0),
    (["capture", "train.py:step", "-o", "step.json"], 4.0),
    (["estimate", "train.py:step"], 5.0),
    (["train", "resnet18", "--batch-size", "16", "--image-size", "64", "--budget", "60%", "--steps", "20"], 12.0),
    (["profile", "resnet18", "--batch-size", "16", "--image-size", "64"], 10.0),
    (["verify", "mlp:8"], 6.0),
]


def interrupt(words, after, folder):
    """(seconds to the end, exit code, lines on standard error), or None where it had ended before."""
    environment = {**os.environ, "TMPDIR": folder, "EBBTIDE_CACHE": os.path.join(folder, "cache"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([PROGRAM, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(after)
    if process.poll() is not None:
        process.stderr.close()
        return None
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return time.monotonic() - begin, process.returncode, errors


def main():
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    broken = 0
    for words, seconds in CASES:
        ends = []
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "train.py").write_text(SCRIPT)
            for i in range(moments):
                found = interrupt(words, seconds * (i + 0.5) / moments, folder)
                if found is None:
                    continue
                ends.append(found[0])
                left = [path.name for path in pathlib.Path(folder).glob("ebbtide-*")]
                if found[1:] != (130, "ebbtide: interrupted\n") or found[0] > LIMIT or left:
                    broken += 1
                    print(f"  at {seconds * (i + 0.5) / moments:.2f} s: {found[0]:.2f} s, exit {found[1]}, {found[2]!r}, left behind {left}")
        worst = f"{max(ends):.2f} s at most" if ends else "ended by itself each time"
        print(f"{words[0]:10} {len(ends)} of {moments} interrupted, {worst}", flush=True)
    print(f"ctrl_c: {'all within a second, one line each' if not broken else f'FAILED, {broken} of them'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
