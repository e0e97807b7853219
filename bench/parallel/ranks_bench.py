"""Estimates of a rank beside dry runs of all ranks, with torch's own DDP, FSDP, tensor and context parallel and pipelines on the phantom GPUs.

    build/python bench/parallel/ranks_bench.py [MODEL ...] [--gpus 2,4] [--layouts ddp,fsdp,fsdp=1,tp,cp,pp,pp+fsdp,tp+cp,...] [--rows FILE]

Models of _ranks_job.py, each captured once; of several ranks that differ, the one that is estimated worst counts. --rows: done ones are kept in that file
and not run again, so that the sweep can be made in parts; the last of them prints all. Fails where what is allocated differs by more than 1 % in the median or
4 % at worst. What is reserved is shown."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
JOB = pathlib.Path(__file__).with_name("_ranks_job.py")
MODELS = ("network", "wide", "decoder", "checkpointed", "frozen", "images", "lora", "llama", "gpt2", "mixtral", "t5", "vit")
LAYOUTS = ("ddp", "fsdp", "fsdp=1", "tp", "cp", "pp", "pp+fsdp", "tp+cp", "ddp x2", "fsdp x2", "fsdp x2 each", "fsdp=1 x2", "fsdp=1 x2 each")
# Layouts that not all models have: matrices must be named, sequences must have attention, stages a part of it each; the first FSDP has its own way with
# units of which a part is frozen, which estimates refuse. Gradients of two batches ("x2", reduced once or each) are those of a config.json.
ONLY = {"fsdp=1": ("network", "wide", "decoder", "checkpointed", "images", "llama", "gpt2", "mixtral", "t5", "vit"),
        "tp": ("decoder", "lora"), "cp": ("decoder", "checkpointed"),
        "pp": ("network", "wide", "decoder", "checkpointed"), "pp+fsdp": ("network", "decoder", "checkpointed"), "tp+cp": ("decoder",)}
ONLY |= {layout: ("llama",) for layout in LAYOUTS if "x2" in layout}
MOST_MEDIAN, MOST_WORST = 0.01, 0.04


def write_config(folder):
    sys.path.insert(0, str(JOB.parent))
    from _ranks_job import LLAMA

    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA))


def estimated(graph, layout, gpus):
    """(allocated, reserved) of every rank."""
    axis = [f"--{layout}", str(gpus)] if layout in ("tp", "cp", "pp") else [f"--{layout}"]
    if layout == "cp":
        axis.append("--fsdp")
    model = [str(graph)]
    if "x2" in layout:
        axis = ["--accumulate", "2", f"--{layout.split()[0]}", *(["--reduce-each-batch"] if layout.endswith("each") else [])]
        model = [str(graph.with_name("llama") / "config.json"), "--batch-size", "4", "--seq-len", "256", "--optimizer", "adamw", "--dtype", "fp32"]
    if layout == "pp+fsdp":
        axis = ["--pp", "2", "--fsdp"]
    if layout == "tp+cp":
        axis = ["--tp", str(gpus // 2), "--cp", "2", "--fsdp"]
    words = [EBBTIDE, "estimate", *model, "--gpus", str(gpus), *axis, "--loop", "trainer", "--zero-grad", "start", "--json"]
    said = subprocess.run(words, capture_output=True, text=True)
    if said.returncode not in (0, 1):
        raise RuntimeError(said.stderr.strip())
    result = json.loads(said.stdout)
    ranks = result["ranks"] if layout.startswith("pp") else [result] * gpus
    return [(rank["peak_allocated_bytes"], rank["peak_reserved_bytes"]) for rank in ranks]


def run_dry(model, layout, gpus):
    batches = ["2", "each" if layout.endswith("each") else "no_sync"] if "x2" in layout else []
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([EBBTIDE, "dryrun", "-q", "--gpus", str(gpus), "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node",
                              str(gpus), str(JOB), model, layout.split()[0], folder, *batches], capture_output=True, text=True)
        files = [pathlib.Path(folder) / f"{rank}.json" for rank in range(gpus)]
        if not all(file.exists() for file in files):
            raise RuntimeError(f"dry run ended with {run.returncode}: {run.stderr.strip()[-1500:]}")
        return [json.loads(file.read_text()) for file in files]


def compared(model, graph, layout, gpus):
    pairs = list(zip(estimated(graph, layout, gpus), run_dry(model, layout, gpus), strict=True))
    rank, (said, seen) = max(enumerate(pairs), key=lambda pair: abs(pair[1][0][0] / pair[1][1][0] - 1))
    return {"model": model, "layout": layout, "gpus": gpus, "rank": rank, "said": list(said), "seen": list(seen)}


def show(row):
    off = [said / seen - 1 for said, seen in zip(row["said"], row["seen"], strict=True)]
    cells = [f"{seen:14,} | {said:14,} | {100 * one:+5.1f} %" for said, seen, one in zip(row["said"], row["seen"], off, strict=True)]
    print(f"| {row['model']:12} | {row['layout']:6} | {row['gpus']} | {row['rank']} | {' | '.join(cells)} |", flush=True)
    return off


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--gpus", default="2,4")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--rows", type=pathlib.Path)
    parsed = parser.parse_args()
    rows = [json.loads(line) for line in parsed.rows.read_text().splitlines()] if parsed.rows and parsed.rows.exists() else []
    done = {(row["model"], row["layout"], row["gpus"]) for row in rows}
    print("| model | layout | GPUs | rank | allocated, dry run | estimate | | reserved, dry run | estimate | |\n|" + "---|" * 10)
    offs = [show(row) for row in rows]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for model in parsed.models or MODELS:
            graph = pathlib.Path(folder) / f"{model}.json"
            write_config(graph.with_name("llama"))
            for gpus in map(int, parsed.gpus.split(",")):
                for layout in parsed.layouts.split(","):
                    if model not in ONLY.get(layout, MODELS) or (model, layout, gpus) in done or ("+" in layout and gpus < 4):
                        continue
                    if not graph.exists():
                        subprocess.run([EBBTIDE, "capture", f"{JOB}:{model}", "--device", "cuda", "-o", str(graph)], check=True, capture_output=True)
                    try:
                        row = compared(model, graph, layout, gpus)
                    except RuntimeError as error:
                        failed.append(f"{model}, {layout}, {gpus} GPUs: {error}")
                        print(failed[-1], file=sys.stderr, flush=True)
                        continue
                    offs.append(show(row))
                    if parsed.rows:
                        with parsed.rows.open("a") as file:
                            file.write(json.dumps(row) + "\n")
    if not offs:
        return 1
    for what, place in (("allocated", 0), ("reserved", 1)):
        sizes = [abs(off[place]) for off in offs]
        print(f"{what}: median {statistics.median(sizes):.2%}, worst {max(sizes):.2%} of {len(sizes)} combinations")
    sizes = [abs(off[0]) for off in offs]
    return bool(failed) or statistics.median(sizes) > MOST_MEDIAN or max(sizes) > MOST_WORST


if __name__ == "__main__":
    sys.exit(main())
