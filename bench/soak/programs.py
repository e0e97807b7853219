"""Programs that others wrote, on the phantom GPU: each must run to its end with steps that were seen and values that were followed.

  programs.py [NAME ...]                     short ones of bench/soak/programs around packages of PyPI; all if none is named
  programs.py --repositories FOLDER [NAME ...]   and the programs of public repositories (support/public_programs.toml),
                                             whose checkouts are in FOLDER/OWNER/REPOSITORY; NAME is any part of "repository folder command"

  --table FILE       writes the rows of docs/programs.md, as they come
  --only-public      leaves those of packages out
  --only-ranks       leaves those for one GPU out, too
  --scratch DIR      keeps made-up data, copies of repositories and what the programs said there
  --environment DIR  one that is there, with the packages below, instead of the one that is made at the first run over that of requirements.lock
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench" / "support"))
from layered_environment import layered_environment  # noqa: E402

PACKAGES = ["transformers", "accelerate", "datasets", "evaluate", "scikit-learn", "peft", "trl", "sentence-transformers", "timm", "lightning", "torchmetrics",
            "ultralytics", "torch_geometric", "diffusers", "torchvision", "pycocotools", "bitsandbytes", "torchao", "liger-kernel", "fastai",
            "segmentation-models-pytorch", "monai", "open_clip_torch", "pytorch-metric-learning", "gpytorch", "x-transformers", "vit-pytorch",
            "denoising-diffusion-pytorch", "pytorch-optimizer", "kornia", "gymnasium", "nbconvert", "ipykernel", "tensorboard", "einops", "tyro",
            "adam-atan2-pytorch", "stable-baselines3", "wandb", "scipy", "yacs", "termcolor", "requests", "fire", "expecttest"]
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "YOLO_OFFLINE": "true", "WANDB_MODE": "disabled", "MPLBACKEND": "agg",
           "TOKENIZERS_PARALLELISM": "false"}
MOST_SECONDS = 900
PACKAGE = "PyPI package"
GPUS = {"torchao_training": "h100-80gb"}  # float8 needs one; the others run on a100-40gb


class Program:
    """A command in a folder; `name` is how the table calls it."""

    def __init__(self, origin, command, folder, words, environment=None, ranks=1, equal=False, gpu="a100-40gb"):
        self.origin, self.command, self.folder, self.words, self.gpu = origin, command, folder, words, gpu
        self.environment, self.ranks, self.equal = environment or {}, ranks, equal

    @property
    def name(self):
        return f"{self.origin} {self.command}" + (f" on {self.ranks} GPUs" if self.ranks > 1 else "")


def of_packages(python, names):
    for path in sorted((HERE / "programs").glob("*.py")):
        if not names or any(name in path.stem for name in names):
            yield Program(PACKAGE, f"python bench/soak/programs/{path.name}", ROOT, [python, path], gpu=GPUS.get(path.stem, "a100-40gb"))


def of_repositories(python, names, sources, scratch, only_ranks):
    """Each runs in a copy of its repository, with its data beside it. A checkout that is not there is a fault."""
    for row in tomllib.loads((HERE / "support" / "public_programs.toml").read_text())["program"]:
        repository, inner = row["repository"], row.get("folder", "")
        origin = f"{repository}/{inner}" if inner else repository
        if names and not any(name in f"{origin} {row['command']}" for name in names):
            continue
        if only_ranks and "ranks" not in row:
            continue
        checkout, copy = sources / repository, scratch / repository
        if not checkout.is_dir():
            raise SystemExit(f"{checkout}: expected a checkout of the public repository {repository}")
        if not copy.exists():
            shutil.copytree(checkout, copy, symlinks=True)
        folder = copy / inner
        for place, kind in row.get("data", {}).items():
            target = scratch / "DATA" / place[5:] if place.startswith("DATA/") else folder / place
            subprocess.run([python, HERE / "support" / "made_up.py", kind, target], check=True)
        extra = {key: value.replace("DATA/", f"{scratch / 'DATA'}/").replace("CHECKOUT", str(copy)) for key, value in row.get("environment", {}).items()}
        for ranks in row.get("ranks", [1]):
            command = row["command"].replace("RANKS", str(ranks))
            words = [word.replace("DATA/", f"{scratch / 'DATA'}/") for word in shlex.split(command)]
            yield Program(origin, command, folder, [*started_by(python, words[0]), *words[1:]], extra, ranks, row.get("equal", False))


def started_by(python, name):
    """The words that start a program of that environment; launchers of the one below it are modules there."""
    executable = pathlib.Path(python).parent / name
    launchers = {"python": [], "torchrun": ["-m", "torch.distributed.run"], "accelerate": ["-m", "accelerate.commands.accelerate_cli"]}
    if name in launchers:
        return [str(python), *launchers[name]]
    return [str(executable) if executable.exists() else name]


def run(program, log):
    """What `ebbtide dryrun` says of it, and what is wrong with that. A program that does not end is interrupted, and is at fault."""
    # Those of ours end by themselves.
    stop = [] if program.origin == PACKAGE else ["--stop-after-steps", "3"]
    several = ["--gpus", str(program.ranks)] if program.ranks > 1 else []
    words = [ROOT / "build" / "ebbtide", "dryrun", "--json", "--gpu", program.gpu, *several, *stop, "--", *program.words]
    given = {**os.environ, **OFFLINE, **program.environment} | ({"OMP_NUM_THREADS": "1"} if several else {})
    with open(log, "w") as said:
        started = subprocess.Popen(words, cwd=program.folder, stdout=subprocess.PIPE, stderr=said, text=True, env=given, start_new_session=True)
        try:
            out, _ = started.communicate(timeout=MOST_SECONDS)
            late = False
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGINT)
            late = True
            try:
                out, _ = started.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                out, _ = started.communicate()
    try:
        result = json.loads(out)
    except json.JSONDecodeError:
        return None, [f"no result: {log.read_text()[-300:]}"]
    faults = [f"no end after {MOST_SECONDS} s"] if late else []
    if started.returncode != 0:
        faults.append(f"exit {started.returncode}: {log.read_text().strip().splitlines()[-1:]}")
    if not result["observed"]:
        faults.append("not observed")
    elif result["steps"] == 0:
        faults.append("no step was seen")
    else:
        faults += faults_of_ranks(program, result)
    faults += [note for note in result["notes"] if "not followed" in note or "missing" in note or "not modelled" in note]
    return result, faults


def faults_of_ranks(program, result):
    if program.ranks == 1:
        return []
    seen = result.get("ranks") or []
    faults = [] if len(seen) == program.ranks else [f"{len(seen)} of {program.ranks} ranks were seen"]
    if len({rank["steps"] for rank in seen}) > 1:
        faults.append(f"ranks made different numbers of steps: {sorted(rank['steps'] for rank in seen)}")
    if program.equal and len({rank["peak_allocated_bytes"] for rank in seen}) > 1:
        faults.append(f"ranks take different amounts: {sorted(rank['peak_allocated_bytes'] for rank in seen)}")
    return faults


def row_of(program, result):
    assumed = sorted({entry["assumed"] for entry in result["assumptions"]})
    told = str(len(result["assumptions"])) + (": " + "; ".join(assumed) if assumed else "")
    time = f"{result['step_time_ns'] / 1e6:.1f} ms" if result["step_time_ns"] else ""
    if program.ranks > 1:
        peaks = [rank["peak_reserved_bytes"] / 2**20 for rank in result["ranks"]]
        shown = f"{max(peaks):,.0f} MiB" + (", all alike" if min(peaks) == max(peaks) else f", least {min(peaks):,.0f} MiB")
        return f"| {program.origin} | `{program.command}` | {program.ranks} | {result['steps']} | {shown} | {time} | {told} |"
    return f"| {program.origin} | `{program.command}` | {result['steps']} | {result['peak_reserved_bytes'] / 2**20:,.0f} MiB | {time} | {told} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repositories", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--only-public", action="store_true")
    parser.add_argument("--only-ranks", action="store_true")
    parser.add_argument("--environment", type=pathlib.Path)
    parser.add_argument("--scratch", type=pathlib.Path)
    options = parser.parse_args()
    python = options.environment / "bin" / "python" if options.environment else layered_environment("programs", PACKAGES)
    failed = count = 0
    with tempfile.TemporaryDirectory() as name:
        scratch = (options.scratch or pathlib.Path(name)).resolve()
        (scratch / "logs").mkdir(parents=True, exist_ok=True)
        programs = [] if options.only_public or options.only_ranks else list(of_packages(python, options.names))
        if options.repositories:
            programs += of_repositories(python, options.names, options.repositories.resolve(), scratch, options.only_ranks)
        for program in programs:
            count += 1
            log = scratch / "logs" / (re.sub(r"[^A-Za-z0-9]+", "-", program.name)[:100] + ".log")
            result, faults = run(program, log)
            if result and result["observed"]:
                print(f"{program.name[:100]:100} {result['steps']} steps, peak {result['peak_reserved_bytes'] / 2**20:.0f} MiB, "
                      f"{len(result['assumptions'])} assumed", flush=True)
                if options.table and not faults:
                    with options.table.open("a") as file:
                        file.write(row_of(program, result) + "\n")
            for fault in faults:
                print(f"  {program.name}: {fault}", flush=True)
            failed += 1 if faults else 0
    print(f"programs: faults in {failed} of {count}" if failed or not count else f"programs: all {count} ran")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
