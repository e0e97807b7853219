"""Fine-tunes by `ebbtide estimate` of a config.json beside the libraries themselves on the phantom GPU: transformers, peft, bitsandbytes, liger-kernel.

    build/python bench/estimate/fine_tunes_bench.py [NAME ...] [--environment DIR] [--json]

Each job is run for three steps (_fine_tune_job.py) by `ebbtide dryrun`, with torch's own allocator, and estimated by the flags beside it. Fails where torch's
peak is off by more than 3 % in the median or 10 % at worst. The libraries are installed at the first run, over the environment of requirements.lock.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench" / "support"))
from layered_environment import layered_environment  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or ROOT / "build" / "ebbtide")
PACKAGES = ["peft", "bitsandbytes", "liger-kernel", "accelerate", "torchao", "galore-torch", "cut-cross-entropy"]
MOST_MEDIAN, MOST_WORST = 0.03, 0.10
SIZES = {"num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 4,
         "vocab_size": 32000, "max_position_embeddings": 2048}
# Of what a model is, beside these sizes.
MODELS = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {"head_dim": 128},
    "gemma2": {"head_dim": 64, "sliding_window": 4096},
    "phi3": {"pad_token_id": 0},
    "granite": {},
    "olmo2": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
TIED = {"tie_word_embeddings": True, "vocab_size": 128000}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj"]
PLAIN = {"model": "llama", "dtype": "bfloat16", "attention": "sdpa", "lora": 0, "targets": TARGETS, "quantize": None, "checkpoint": None,
         "optimizer": "adamw_torch", "kernels": "plain", "loss": "plain", "autocast": False, "clip": False, "accumulate": 1, "packing": False, "batch": 4,
         "length": 512, "config": {}}
LORA = {"lora": 16}
# By name: what differs from a plain full fine-tune, and the flags that say so.
JOBS = {
    "full": ({}, []),
    "full, float32 under autocast": ({"dtype": "float32", "autocast": True}, ["--dtype", "fp32", "--autocast", "bf16"]),
    "full, eager attention": ({"attention": "eager"}, ["--attention", "eager"]),
    "full, clipped": ({"clip": True}, ["--clip"]),
    "checkpointing": ({"checkpoint": "plain"}, ["--checkpoint"]),
    "checkpointing, reentrant": ({"checkpoint": "reentrant"}, ["--checkpoint=reentrant"]),
    "AdamW, fused": ({"optimizer": "adamw_torch_fused"}, ["--optimizer", "adamw-fused"]),
    "AdamW, 8-bit": ({"optimizer": "adamw_bnb_8bit"}, ["--optimizer", "adamw-8bit"]),
    "AdamW, paged": ({"optimizer": "paged"}, ["--optimizer", "adamw-paged"]),
    "Lion": ({"optimizer": "lion"}, ["--optimizer", "lion"]),
    "Adafactor": ({"optimizer": "adafactor"}, ["--optimizer", "adafactor"]),
    "SGD": ({"optimizer": "sgd"}, ["--optimizer", "sgd"]),
    "Muon": ({"optimizer": "muon"}, ["--optimizer", "muon"]),
    "GaLore": ({"optimizer": "galore"}, ["--optimizer", "galore"]),
    "packed": ({"packing": True}, ["--packing"]),
    "cut cross-entropy": ({"loss": "chunked"}, ["--loss", "chunked"]),
    "LoRA on fp8": (LORA | {"quantize": "fp8"}, ["--quantize", "fp8"]),
    "LoRA": (LORA, []),
    "LoRA, cut cross-entropy, checkpointing": (LORA | {"loss": "chunked", "checkpoint": "plain"}, ["--loss", "chunked", "--checkpoint"]),
    "LoRA, checkpointing": (LORA | {"checkpoint": "plain"}, ["--checkpoint"]),
    "LoRA, autocast": (LORA | {"autocast": True}, ["--autocast", "bf16"]),
    "QLoRA, nf4": (LORA | {"quantize": "nf4"}, ["--quantize", "nf4"]),
    "QLoRA, nf4, checkpointing": (LORA | {"quantize": "nf4", "checkpoint": "reentrant"}, ["--quantize", "nf4", "--checkpoint=reentrant"]),
    "LoRA on int8": (LORA | {"quantize": "int8", "dtype": "float16"}, ["--quantize", "int8", "--dtype", "fp16"]),
    "Liger": ({"kernels": "liger"}, ["--kernels", "liger"]),
    "Liger's fused loss": ({"loss": "liger"}, ["--loss", "fused"]),
    "Liger, all of it": ({"kernels": "liger", "loss": "liger"}, ["--kernels", "liger", "--loss", "fused"]),
    "LoRA, Liger, checkpointing": (LORA | {"kernels": "liger", "loss": "liger", "checkpoint": "plain"},
                                   ["--kernels", "liger", "--loss", "fused", "--checkpoint"]),
}
# What a model's own library does otherwise, without being asked.
OWN = {"gemma2": {"attention": "eager"}, "phi3": {"targets": ["qkv_proj", "o_proj"]}}
JOBS |= {f"{model}, {how}": (JOBS[how][0] | {"model": model} | OWN.get(model, {}), JOBS[how][1])
         for model in MODELS if model != "llama" for how in ("full", "LoRA, checkpointing")}
JOBS |= {f"{model}, tied words, {how}": (JOBS[how][0] | {"model": model, "config": TIED}, JOBS[how][1])
         for model, how in (("llama", "full"), ("llama", "checkpointing"), ("llama", "Liger's fused loss"), ("llama", "LoRA, checkpointing"),
                            ("llama", "LoRA, Liger, checkpointing"), ("qwen3", "checkpointing"), ("qwen3", "Liger's fused loss"))}


def flags_of(job, more):
    flags = ["--batch-size", str(job["batch"]), "--seq-len", str(job["length"])]
    if "--optimizer" not in more:
        flags += ["--optimizer", "adamw"]
    if "--dtype" not in more:
        flags += ["--dtype", "bf16"]
    if job["lora"]:
        flags += ["--lora", str(job["lora"])]
        for target in job["targets"]:
            flags += ["--lora-targets", target]
    return [*flags, *more]


def run(name, folder, python):
    """(what the libraries took, what was predicted), as dicts; a string where one of them failed."""
    changed, more = JOBS[name]
    job = PLAIN | changed | {"folder": str(folder), "result": str(folder / "result.json")}
    (folder / "config.json").write_text(json.dumps({"model_type": job["model"]} | SIZES | MODELS[job["model"]] | job["config"]))
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "result.json").unlink(missing_ok=True)
    dry = subprocess.run([PROGRAM, "dryrun", "-q", "--json", "--", python, HERE / "_fine_tune_job.py", folder / "job.json"], capture_output=True, text=True)
    if not (folder / "result.json").exists():
        return f"the dry run ended with {dry.returncode}: {(dry.stderr.strip().splitlines() or ['no word'])[-1]}"
    said = subprocess.run([PROGRAM, "estimate", folder / "config.json", *flags_of(job, more), "--json"], capture_output=True, text=True)
    if said.returncode not in (0, 1):
        return said.stderr.strip()
    answer = json.loads(said.stdout)
    predicted = {"allocated": answer["peak_allocated_bytes"], "reserved": answer["peak_reserved_bytes"], "end": answer["end_allocated_bytes"]}
    return json.loads((folder / "result.json").read_text()), predicted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(JOBS))
    parser.add_argument("--environment", type=pathlib.Path, help="one that has the libraries, instead of the one that is made")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in JOBS]
    if unknown:
        sys.exit(f"fine_tunes_bench: {unknown[0]}: expected one of {'; '.join(JOBS)}")
    python = options.environment / "bin" / "python" if options.environment else layered_environment("fine-tunes", PACKAGES)
    rows, failed = [], []
    if not options.json:
        print(f"{'MiB':30} {'allocated':>9} {'predicted':>9} {'error':>8} {'reserved':>9} {'predicted':>9} {'error':>8} {'at the end':>11}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.names or JOBS:
            outcome = run(name, pathlib.Path(scratch), python)
            if isinstance(outcome, str):
                failed.append(f"{name}: {outcome}")
                continue
            taken, predicted = outcome
            errors = {key: predicted[key] / taken[key] - 1 for key in taken}
            rows.append({"job": name, "taken": taken, "predicted": predicted, "errors": errors})
            if not options.json:
                print(f"{name:30} {taken['allocated'] / 2**20:9.1f} {predicted['allocated'] / 2**20:9.1f} {errors['allocated']:8.2%} "
                      f"{taken['reserved'] / 2**20:9.0f} {predicted['reserved'] / 2**20:9.0f} {errors['reserved']:8.2%} {errors['end']:11.2%}", flush=True)
    for line in failed:
        print(line, file=sys.stderr)
    sizes = [abs(row["errors"]["allocated"]) for row in rows]
    holds = bool(sizes) and not failed and statistics.median(sizes) <= MOST_MEDIAN and max(sizes) <= MOST_WORST
    if options.json:
        print(json.dumps({"rows": rows, "failed": failed, "holds": holds}, indent=1))
    elif sizes:
        print(f"torch's peak: median {statistics.median(sizes):.2%}, worst {max(sizes):.2%} of {len(rows)} jobs, {len(failed)} failed")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
