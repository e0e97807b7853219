"""Programs of packages from PyPI on the phantom GPU (bench/soak/programs): each must run to its end with steps that were
seen and values that were followed. Makes their environment at the first run, over the one of requirements.lock.

  programs.py [NAME ...]   some of them; all if none is named
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ["transformers", "accelerate", "datasets", "peft", "timm", "lightning", "ultralytics", "torch_geometric", "diffusers",
            "torchvision", "bitsandbytes", "torchao"]


def environment():
    """Its Python. A file of paths lets it see the packages of the environment that this runs in."""
    cache = os.environ.get("EBBTIDE_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ebbtide"
    folder = pathlib.Path(cache) / f"programs-{pathlib.Path(sys.prefix).name}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        own = next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))
        (site / "base.pth").write_text(own + "\n")
        subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check",
                        "--no-input", *PACKAGES], check=True)
        (folder / ".complete").touch()
    return python


def faults(python, program):
    words = [ROOT / "build" / "ebbtide", "dryrun", "--json", "--", python, program]
    offline = {"HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true", "WANDB_MODE": "disabled", "MPLBACKEND": "agg"}
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **offline})
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        return [f"no result: {done.stderr[-300:]}"]
    print(f"{program.stem:28} exit {done.returncode}, {result['steps']} steps, peak {result['peak_reserved_bytes'] / 2**20:.0f} MiB, "
          f"{len(result['assumptions'])} assumed", flush=True)
    found = []
    if done.returncode != 0:
        found.append(f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    if result["steps"] == 0:
        found.append("no step was seen")
    return found + [note for note in result["notes"] if "values were not followed" in note]


def main():
    programs = sorted((HERE / "programs").glob("*.py"))
    if names := sys.argv[1:]:
        programs = [program for program in programs if program.stem in names]
    python = environment()
    failed = 0
    for program in programs:
        for fault in faults(python, program):
            failed += 1
            print(f"  {program.stem}: {fault}")
    print(f"programs: {failed} faults in {len(programs)} programs" if failed or not programs else f"programs: all {len(programs)} ran")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
