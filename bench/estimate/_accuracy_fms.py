"""Measured fine-tunes of language models (fms.csv): each row as flags of `ebbtide estimate` on a config.json, and the
figures over them: torch's peak, what is left at the end, what nvidia-smi showed, and whether the job fitted."""

import concurrent.futures
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from _accuracy_peers import PEERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or ROOT / "build" / "ebbtide")
MIB = 2**20
GPU = "a100-80gb"


def _llama(layers, width, hidden, heads, key_heads, words, **more):
    return {"model_type": "llama", "num_hidden_layers": layers, "hidden_size": width, "intermediate_size": hidden,
            "num_attention_heads": heads, "num_key_value_heads": key_heads, "vocab_size": words, **more}


# Published sizes of base models that such benchmarks take. The second figure: words after the tokenizer's pad token was added.
MODELS = {
    "mistral-7b": (_llama(32, 4096, 14336, 32, 8, 32000, model_type="mistral", sliding_window=4096), 32001),
    # Biases, and no row for a pad token: what is left at the end of its full fine-tunes is 6 bytes for each of 3,512,017,152 parameters.
    "powerlm-3b": (_llama(40, 2304, 9216, 36, 36, 49152, model_type="granite", tie_word_embeddings=True, attention_bias=True, mlp_bias=True), 49152),
    "mixtral-8x7b": (_llama(32, 4096, 14336, 32, 8, 32000, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2), 32001),
    "llama-2-7b": (_llama(32, 4096, 11008, 32, 32, 32000), 32001),
    "llama-2-13b": (_llama(40, 5120, 13824, 40, 40, 32000), 32001),
    "llama-2-70b": (_llama(80, 8192, 28672, 64, 8, 32000), 32001),
    "llama-3-8b": (_llama(32, 4096, 14336, 32, 8, 128256), 128257),
    "llama-3-70b": (_llama(80, 8192, 28672, 64, 8, 128256), 128257),
    "granite-8b-code": (_llama(36, 4096, 14336, 32, 8, 49152, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), 49153),
    "granite-3b-code": (_llama(32, 2560, 10240, 32, 32, 49152, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), 49153),
    "granite-3.0-8b": (_llama(40, 4096, 12800, 32, 8, 49155, model_type="granite", tie_word_embeddings=True), 49155),
    "granite-3.0-2b": (_llama(40, 2048, 8192, 32, 8, 49155, model_type="granite", tie_word_embeddings=True), 49155),
}
TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def model_of(row):
    """The configuration and its words; None where it is not known."""
    for name in (row["base_model"], row.get("raw_model_name_or_path", "")):
        plain = name.lower().replace("_", "-")
        for known, value in MODELS.items():
            if all(part in plain for part in known.split("-")):
                return value
    return None


def flags_of(row):
    """The job as flags."""
    version = row["transformers"] or "4.45"
    words = ["--batch-size", row["microbatch"], "--seq-len", row["seq_len"], "--dtype", TYPES[row["weights_dtype"]], "--attention", "flash",
             "--checkpoint=reentrant", "--optimizer", "adamw", "--clip", "--transformers", version, "--framework", "pytorch-2.6", "--gpu", GPU]
    if row["amp"] not in ("", "none"):
        words += ["--autocast", row["amp"]]
    if row["method"] != "full":
        words += ["--lora", "16", "--lora-dropout", "0.1"]
        for target in ("q_proj", "k_proj", "v_proj", "o_proj"):
            words += ["--lora-targets", target]
    if row["method"] == "qlora_nf4":
        words += ["--quantize", "nf4"]
    if row["method"] == "lora_gptq4":
        words += ["--quantize", "gptq4"]
    if row["kernels"] == "stock-kbit-prepare" and row["gpus"] == "1":
        words += ["--kbit-prepare"]
    if row["kernels"].startswith("foak"):
        words += ["--kernels", "foak"]
    if row["kernels"].endswith("liger"):
        words += ["--loss", "fused"]
    if int(row["gpus"]) > 1:
        words += ["--gpus", row["gpus"], "--fsdp=1"]
    return words


def estimate(row, folder, dryrun=None):
    """What `ebbtide estimate --json` says of a row, or its own libraries on the phantom GPU; a string where they say nothing."""
    model = model_of(row)
    if model is None:
        return f"no configuration is known for {row['base_model']}"
    if dryrun is not None:
        return dryrun.answer(row, model, folder, GPU)
    config = folder / f"{row['row_id']}.json"
    config.write_text(json.dumps(model[0]))
    command = [PROGRAM, "estimate", config, *flags_of(row), "--resize-vocab", str(model[1]), "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        return run.stderr.strip()[-300:] or f"estimate ended with {run.returncode}"
    return json.loads(run.stdout)


def read(path, tier="A"):
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file) if row["tier"] == tier]


def share(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else None


def figures(outcomes):
    """Over rows with their answers."""
    ran = [(row, answer) for row, answer in outcomes if row["outcome"] == "ok"]
    failed = [(row, answer) for row, answer in outcomes if row["outcome"] != "ok"]
    peak = [abs(answer["peak_allocated_bytes"] / int(row["torch_peak_alloc_bytes"]) - 1) for row, answer in ran]
    end = [abs(answer["end_allocated_bytes"] / int(row["torch_end_alloc_bytes"]) - 1) for row, answer in ran if row["torch_end_alloc_bytes"]]
    metered = [(row, answer) for row, answer in ran if row["near_card_limit"] != "1"]
    smi = [abs(answer["total_bytes"] / (float(row["nvidia_smi_peak_MiB"]) * MIB) - 1) for row, answer in metered]
    safe = [answer["safe_bytes"] >= float(row["nvidia_smi_peak_MiB"]) * MIB for row, answer in metered if answer["safe_bytes"] is not None]
    result = {"n": len(ran)}
    if ran:
        result |= {"median_error": statistics.median(peak), "p90_error": share(peak, 0.9), "end_median_error": statistics.median(end),
                   "end_worst_error": max(end), "fits_share": sum(answer["fits"] for _, answer in ran) / len(ran)}
    if smi:
        result["smi_median_error"] = statistics.median(smi)
    if safe:
        result["safe_enough_share"] = sum(safe) / len(safe)
    if failed:
        result |= {"failed": len(failed), "failed_does_not_fit_share": sum(not answer["fits"] for _, answer in failed) / len(failed)}
    return result


def print_figures(name, f):
    if not f["n"]:
        return
    line = (f"{name:34} {f['n']:4} rows: torch peak median {f['median_error']:.2%}, p90 {f['p90_error']:.2%}; end median {f['end_median_error']:.3%}, "
            f"worst {f['end_worst_error']:.2%}; fits {f['fits_share']:.1%}")
    if "smi_median_error" in f:
        line += f"; nvidia-smi median {f['smi_median_error']:.2%}"
    if "safe_enough_share" in f:
        line += f", safe enough {f['safe_enough_share']:.1%}"
    if "failed" in f:
        line += f"; does not fit {f['failed_does_not_fit_share']:.1%} of {f['failed']} that failed"
    print(line)


def print_peers(outcomes):
    """Beside others, on the same rows: torch's peak."""
    ran = [(row, answer) for row, answer in outcomes if row["outcome"] == "ok"]
    columns = {"ebbtide": [answer["peak_allocated_bytes"] for _, answer in ran]}
    for name, calculator in PEERS.items():
        columns[name] = [calculator(row | {"_config": model_of(row)[0]}, answer) for row, answer in ran]
    print(f"{'torch peak, the same ' + str(len(ran)) + ' rows':34} {'median':>8} {'p90':>8} {'too low':>8}")
    for name, values in columns.items():
        errors = [value / int(row["torch_peak_alloc_bytes"]) - 1 for value, (row, _) in zip(values, ran)]
        sizes = [abs(e) for e in errors]
        print(f"{name:34} {statistics.median(sizes):8.2%} {share(sizes, 0.9):8.2%} {sum(e < 0 for e in errors) / len(errors):8.1%}")


def run(options):
    rows = [row for row in read(options.rows) if options.only.lower() in row["base_model"].lower()]
    dryrun = None
    if options.via == "dryrun":
        import _accuracy_fms_dryrun

        dryrun = _accuracy_fms_dryrun.Dryrun(PROGRAM)
        left_out = [row for row in rows if _accuracy_fms_dryrun.why_not(row)]
        print(f"accuracy: {len(left_out)} of {len(rows)} rows are not run: other versions than bench/estimate/fms.lock, GPTQ, or sharded 4-bit weights",
              file=sys.stderr)
        rows = [row for row in rows if row not in left_out]
    if options.sample:
        rows = [rows[i * len(rows) // options.sample] for i in range(min(options.sample, len(rows)))]
    outcomes, missing = [], []
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row, answer in zip(rows, pool.map(lambda row: estimate(row, pathlib.Path(name), dryrun), rows)):
            if isinstance(answer, str):
                missing.append((row, answer))
                continue
            outcomes.append((row, answer))
            if not options.json and row["outcome"] == "ok":
                measured, end = int(row["torch_peak_alloc_bytes"]), int(row["torch_end_alloc_bytes"])
                print(f"{row['row_id']} {row['base_model']:14} {row['method']:10} {row['kernels']:18} {row['gpus']}x{row['microbatch']:3} {row['amp']:5} "
                      f"{row['transformers']:7} {measured / MIB:9.0f} {answer['peak_allocated_bytes'] / MIB:9.0f} "
                      f"{answer['peak_allocated_bytes'] / measured - 1:8.2%}  end {answer['end_allocated_bytes'] / end - 1:8.3%}  "
                      f"smi {answer['total_bytes'] / MIB / float(row['nvidia_smi_peak_MiB']) - 1:7.2%}", flush=True)
    newest = [(row, answer) for row, answer in outcomes if row["in_newest_revision"] == "1"]
    summaries = {"tier A, newest revision": figures(newest), "tier A, all": figures(outcomes),
                 "tier A, newest revision, 1 GPU": figures([o for o in newest if o[0]["gpus"] == "1"]),
                 "tier A, all, 1 GPU": figures([o for o in outcomes if o[0]["gpus"] == "1"]),
                 "tier A, newest revision, several": figures([o for o in newest if o[0]["gpus"] != "1"]),
                 "tier A, all, several GPUs": figures([o for o in outcomes if o[0]["gpus"] != "1"])}
    if options.json:
        listed = [{"path": row["row_id"], "predicted_bytes": answer["peak_allocated_bytes"], "end_bytes": answer["end_allocated_bytes"],
                   "total_bytes": answer["total_bytes"], "safe_bytes": answer["safe_bytes"], "fits": answer["fits"]} for row, answer in outcomes]
        listed += [{"path": row["row_id"], "predicted_bytes": None, "safe_bytes": None, "error": answer} for row, answer in missing]
        print(json.dumps({"rows": listed, "summary": summaries["tier A, newest revision"] | {"not_built": len(missing)}, "parts": summaries}, indent=1))
    else:
        for name, part in summaries.items():
            print_figures(name, part)
        if newest and dryrun is None:
            print_peers(newest)
        for reason in sorted({answer for _, answer in missing}):
            print(f"accuracy: {sum(answer == reason for _, answer in missing)} rows not built: {reason}", file=sys.stderr)
    return 1 if missing else 0
