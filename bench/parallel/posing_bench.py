"""One rank of 64 of a 70B model, dry-run alone: how long it takes, and how much of the host's memory.

    build/python bench/parallel/posing_bench.py

Fails from 3 minutes or 6 GB on."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
JOB = pathlib.Path(__file__).with_name("_posing_job.py")


def main():
    begin = time.monotonic()
    words = [EBBTIDE, "dryrun", "-q", "--gpu", "h100-80gb", "--world-size", "64", "--ranks", "0", "--json", "--", sys.executable, str(JOB)]
    result = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    seconds, host = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"a rank of 64: {result['steps']} steps, reserved {result['peak_reserved_bytes']:,}, allocated {result['peak_allocated_bytes']:,} bytes; "
          f"{seconds:.0f} s (at most 180), {host / 1e9:.1f} GB of the host (at most 6)")
    return not (result["steps"] == 2 and seconds < 180 and host < 6e9)


if __name__ == "__main__":
    sys.exit(main())
