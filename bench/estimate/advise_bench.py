"""Whether what `ebbtide advise` proposes fits: every proposal, for ten pairs of model and GPU, run with the libraries that it names on the phantom GPU.

    build/python bench/estimate/advise_bench.py [PAIR ...] [--most N] [--environment DIR]

--most: so many proposals of each pair, the best first; all if not given. Those of one GPU; a plan is run by bench/run, not here. Fails where a proposal runs
out of memory, or takes more in all than its safe figure.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from fine_tunes_bench import HERE, PACKAGES, PLAIN, PROGRAM, layered_environment


def _sizes(layers, width, hidden, heads, key_heads, words):
    return {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": hidden, "num_attention_heads": heads, "num_key_value_heads": key_heads,
            "vocab_size": words, "max_position_embeddings": 8192}


LLAMA_8B = {"model_type": "llama"} | _sizes(32, 4096, 14336, 32, 8, 128256)
LLAMA_1B = {"model_type": "llama", "tie_word_embeddings": True, "head_dim": 64} | _sizes(16, 2048, 8192, 32, 8, 128256)
MISTRAL_7B = {"model_type": "mistral", "sliding_window": None} | _sizes(32, 4096, 14336, 32, 8, 32000)
QWEN_4B = {"model_type": "qwen3", "head_dim": 128, "tie_word_embeddings": True} | _sizes(36, 2560, 9728, 32, 8, 151936)
GRANITE_2B = {"model_type": "granite", "tie_word_embeddings": True} | _sizes(40, 2048, 8192, 32, 8, 49155)
# By name: the configuration, the GPU, samples and their length.
PAIRS = {
    "llama-8b on a100-80gb": (LLAMA_8B, "a100-80gb", 8, 2048),
    "llama-8b on a100-40gb": (LLAMA_8B, "a100-40gb", 4, 2048),
    "llama-8b on rtx3090": (LLAMA_8B, "rtx3090", 8, 1024),
    "llama-1b on rtx3090": (LLAMA_1B, "rtx3090", 16, 1024),
    "llama-1b on rtx3060": (LLAMA_1B, "rtx3060", 8, 1024),
    "mistral-7b on a100-80gb": (MISTRAL_7B, "a100-80gb", 16, 1024),
    "mistral-7b on rtx3090": (MISTRAL_7B, "rtx3090", 4, 2048),
    "qwen-4b on a100-40gb": (QWEN_4B, "a100-40gb", 8, 1024),
    "granite-2b on a100-40gb": (GRANITE_2B, "a100-40gb", 16, 1024),
    "granite-2b on rtx3090": (GRANITE_2B, "rtx3090", 4, 2048),
}
# What a flag of `estimate` is in a job.
SETTINGS = {"--loss": ("loss", {"fused": "liger"}), "--attention": ("attention", {}), "--quantize": ("quantize", {}),
            "--optimizer": ("optimizer", {"adamw-8bit": "adamw_bnb_8bit"})}
NUMBERS = {"--lora": "lora", "--batch-size": "batch", "--accumulate": "accumulate"}


def job_of(flags, folder, batch, length):
    job = PLAIN | {"batch": batch, "length": length, "targets": None, "folder": str(folder), "result": str(folder / "result.json")}
    for flag in flags:
        name, _, value = flag.partition(" ")
        if name == "--checkpoint":
            job["checkpoint"] = "plain"
        elif name in NUMBERS:
            job[NUMBERS[name]] = int(value)
        else:
            key, values = SETTINGS[name]
            job[key] = values.get(value, value)
    return job


def confirmed(proposal, pair, folder, python):
    """What the job took in all; a string where it ran out of memory or did not run."""
    config, gpu, batch, length = pair
    job = job_of(proposal["flags"], folder, batch, length)
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "result.json").unlink(missing_ok=True)
    run = subprocess.run([PROGRAM, "dryrun", "-q", "--json", "--gpu", gpu, "--", python, HERE / "_fine_tune_job.py", folder / "job.json"],
                         capture_output=True, text=True)
    said = json.loads(run.stdout) if run.stdout.strip() else {}
    if said.get("oom"):
        return "out of memory"
    if not (folder / "result.json").exists():
        return f"ended with {run.returncode}: {(run.stderr.strip().splitlines() or ['no word'])[-1]}"
    return said["total_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="; ".join(PAIRS))
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--environment", type=pathlib.Path, help="one that has the libraries, instead of the one that is made")
    options = parser.parse_args()
    python = options.environment / "bin" / "python" if options.environment else layered_environment("fine-tunes", PACKAGES)
    tried = failed = 0
    print(f"{'GiB':26} {'predicted':>9} {'safe':>7} {'taken':>7}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in options.pairs or PAIRS:
            config, gpu, batch, length = pair = PAIRS[name]
            (folder / "config.json").write_text(json.dumps(config))
            advice = subprocess.run([PROGRAM, "advise", folder / "config.json", "--gpu", gpu, "--batch-size", str(batch), "--seq-len", str(length),
                                     "--optimizer", "adamw", "--dtype", "bf16", "--json"], capture_output=True, text=True)
            proposals = [p for p in json.loads(advice.stdout)["proposals"] if p["fits"] and p["flags"]][:options.most]
            for proposal in proposals:
                taken = confirmed(proposal, pair, folder, python)
                tried += 1
                holds = not isinstance(taken, str) and taken <= proposal["safe_bytes"]
                failed += not holds
                shown = taken if isinstance(taken, str) else f"{taken / 2**30:7.2f}"
                print(f"{name:26} {proposal['total_bytes'] / 2**30:9.2f} {proposal['safe_bytes'] / 2**30:7.2f} {shown}  {' '.join(proposal['flags'])}"
                      f"{'' if holds else '   DOES NOT HOLD'}", flush=True)
    print(f"{tried} proposals, {tried - failed} of them confirmed")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
