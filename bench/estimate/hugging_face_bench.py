"""What an answer costs from the shell: `inspect` and `estimate` of published configurations, LoRA and full, the best of several runs.

    build/python bench/estimate/hugging_face_bench.py

Fails where a configuration takes more than 100 ms to inspect, or the estimate of a 70B model with LoRA more than 150 ms, of the processor."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from support.published_configs import CONFIGS  # noqa: E402

EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
TIMES = 5
INSPECTED = ("llama-3-8b", "llama-3-70b", "gemma-2-9b", "mixtral-8x7b", "deepseek-v3", "gpt2-xl", "falcon-40b", "t5-base", "whisper-large-v2")
LORA = ["--dtype", "bf16", "--lora", "16", "--lora-targets", "all-linear", "--attention", "flash", "--checkpoint", "--optimizer", "adamw", "--batch-size", "1",
        "--seq-len", "4096", "--gpu", "h100-80gb"]
MOST_INSPECT, MOST_ESTIMATE = 0.1, 0.15


def computed():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def best(command):
    """(of the clock, of the processor)."""
    runs = []
    for _ in range(TIMES):
        begin, before = time.perf_counter(), computed()
        code = subprocess.run([EBBTIDE, *command, "--json"], stdout=subprocess.DEVNULL).returncode
        assert code in (0, 1), command
        runs.append((time.perf_counter() - begin, computed() - before))
    return min(wall for wall, _ in runs), min(cpu for _, cpu in runs)


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        def config(name):
            path = pathlib.Path(folder) / f"{name}.json"
            path.write_text(json.dumps(CONFIGS[name]))
            return str(path)

        for name in INSPECTED:
            wall, cpu = best(["inspect", config(name), "--batch-size", "1"])
            failed |= cpu > MOST_INSPECT
            print(f"inspect  {name:20} {1000 * wall:7.1f} ms, {1000 * cpu:6.1f} of the processor (at most {1000 * MOST_INSPECT:.0f})", flush=True)
        for name, ranks in (("llama-3-8b", []), ("llama-3-70b", []), ("llama-3-70b", ["--gpus", "8", "--fsdp"])):
            wall, cpu = best(["estimate", config(name), *LORA, *ranks])
            failed |= cpu > MOST_ESTIMATE
            asked = " ".join([name, *ranks])
            print(f"estimate {asked:28} {1000 * wall:7.1f} ms, {1000 * cpu:6.1f} of the processor (at most {1000 * MOST_ESTIMATE:.0f})", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
