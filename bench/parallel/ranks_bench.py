"""Estimates of a rank beside dry runs of all ranks, with torch's own DDP, FSDP2 and tensor parallel on the phantom GPUs.

    build/python bench/parallel/ranks_bench.py [--gpus 2,4] [--layouts ddp,fsdp,tp]

Fails where what is allocated differs by more than 4 %. What is reserved is shown."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
JOB = pathlib.Path(__file__).with_name("_ranks_job.py")
MOST = 0.04


def estimated(layout, gpus):
    step, axis = ("decoder", ["--tp", str(gpus)]) if layout == "tp" else ("step", [f"--{layout}"])
    words = [EBBTIDE, "estimate", f"{JOB}:{step}", "--gpus", str(gpus), *axis, "--loop", "trainer", "--zero-grad", "start", "--json"]
    result = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return result["peak_allocated_bytes"], result["peak_reserved_bytes"]


def run_dry(layout, gpus):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "peaks.json"
        subprocess.run([EBBTIDE, "dryrun", "-q", "--gpus", str(gpus), "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node",
                        str(gpus), str(JOB), layout, str(file)], check=True, capture_output=True)
        return json.loads(file.read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", default="2")
    parser.add_argument("--layouts", default="ddp,fsdp,tp")
    parsed = parser.parse_args()
    worst = 0.0
    print(f"{'layout':8}{'GPUs':>5}{'allocated, dry run':>20}{'estimate':>16}{'':>8}{'reserved, dry run':>20}{'estimate':>16}")
    for gpus in map(int, parsed.gpus.split(",")):
        for layout in parsed.layouts.split(","):
            predicted, seen = estimated(layout, gpus), run_dry(layout, gpus)
            off = [p / s - 1 for p, s in zip(predicted, seen, strict=True)]
            worst = max(worst, abs(off[0]))
            print(f"{layout:8}{gpus:5}{seen[0]:20,}{predicted[0]:16,}{100 * off[0]:+7.1f}%{seen[1]:20,}{predicted[1]:16,}{100 * off[1]:+7.1f}%", flush=True)
    print(f"worst of what is allocated: {100 * worst:.1f} % (at most {100 * MOST:.0f} %)")
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
