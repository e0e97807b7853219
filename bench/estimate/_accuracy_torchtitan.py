"""Measured pre-trainings on many GPUs (torchtitan.csv): each row is run by torchtitan itself, one rank of all, in a dry run.

torchtitan is a release from PyPI, the one nearest behind the row's day that knows what the row asks for; torch is that of the
project for all of them, as nightlies of the time cannot be had. The line of a row says both."""

import base64
import concurrent.futures
import csv
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from _accuracy_rows import BadInput

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "support"))
from layered_environment import layered_environment  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or ROOT / "build" / "ebbtide")
GIB = 2**30
STEPS = 4  # the second has the optimizer's state
STEPS_OF_SEGMENTS = 20  # without expandable segments what is reserved may grow over many more, and the rows are of late ones
LONGEST = 3600  # seconds

# The last day of the rows that each release stands for.
RELEASES = (("2025-06-30", "0.1.0"), ("2025-10-31", "0.2.0"), ("2025-12-31", "0.2.1"), ("2026-03-31", "0.2.2"), ("9999", "0.3.0"))
# What the graph trainer of 0.3 calls its ways to recompute.
GRAPH_POLICIES = {"graph default": "default", "graph full recompute": "full", "graph selective": "default"}
FLAVOURS = {"llama3-8b": "8B", "llama3-70b": "70B", "llama3-405b": "405B", "llama2-7b": "llama2-7b"}
WORDS = {"llama2-7b": 32000}  # of the vocabulary; else 128256
SPECIAL = 256  # words that the tokenizer adds by itself
PROFILES = {"H100": "h100-80gb", "A100": "a100-80gb", "B200": "h100-80gb", "GB200": "h100-80gb"}
DTYPES = {"float8 tensorwise": "tensorwise", "float8 rowwise": "rowwise"}


class NotBuilt(Exception):
    """A row that no release of torchtitan is known to run; the message says why."""


def release_of(row):
    if row["ac"].startswith("graph"):
        return "0.3.0"
    return next(release for last, release in RELEASES if row["date"] <= last)


def environment(release):
    """A Python with that release."""
    pins = [line for line in (ROOT / "bench" / "estimate" / "torchtitan.lock").read_text().splitlines() if "==" in line]
    if release == "0.3.0":  # imports kernels of torchao that the Triton of torch 2.15 refuses, where torchao is there
        pins = [line for line in pins if not line.startswith("torchao==")]
    return layered_environment(f"torchtitan-{release}", [*pins, f"torchtitan=={release}"], locked=True)


def write_assets(folder):
    """Texts and tokenizers, made up: torchtitan's wheels have none, and sizes are all that counts."""
    chosen = random.Random(1)
    words = "the tide comes in and goes out twice a day because the moon pulls at the sea".split()
    texts = folder / "tests" / "assets" / "c4_test"
    texts.mkdir(parents=True)
    (texts / "data.json").write_text("".join(json.dumps({"text": " ".join(chosen.choices(words, k=300))}) + "\n" for _ in range(2000)))
    pieces = [bytes(p) for p in itertools.chain(*(itertools.product(range(256), repeat=n) for n in (1, 2)))]
    pieces += [b"a" + piece for piece in pieces if len(piece) == 2]
    for size in {128256, *WORDS.values()}:
        lines = (base64.b64encode(piece) + b" %d\n" % number for number, piece in enumerate(pieces[: size - SPECIAL]))
        (folder / f"tokenizer-{size}.model").write_bytes(b"".join(lines))
    hugging_face = folder / "tokenizer"
    hugging_face.mkdir()
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*sorted(set(words)), "<s>", "</s>"])}, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(hugging_face / "tokenizer.json"))
    (hugging_face / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))


def write_profile(row, folder):
    """The GPU, with the memory that torch showed there."""
    kind = row["gpu"].replace("-", " ").split()[0]
    if kind not in PROFILES:
        raise NotBuilt(f"no profile stands for the GPU {row['gpu']}")
    profile = json.loads((ROOT / "profiles" / f"{PROFILES[kind]}.json").read_text())
    profile["memory_bytes"]["value"] = int(float(row["gpu_total_GiB"]) * GIB)
    path = folder / f"{kind}-{row['gpu_total_GiB']}.json"
    if not path.exists():
        path.with_suffix(f".{row['row_id']}").write_text(json.dumps(profile))
        path.with_suffix(f".{row['row_id']}").rename(path)
    return path


def changes_of(row, release):
    """Words for _torchtitan_more.py."""
    if release != "0.1.0":
        return []
    words = []
    if row["model"] == "llama2-7b":
        words.append("llama2-7b")
    if row["dp_impl"] == "FSDP1":
        words.append("fsdp1")
    if "chunks" in row["loss"]:
        words.append("chunked-loss")
    elif row["date"] < "2024-09":
        words.append("kept-scores")
    elif row["date"] < "2025-04":
        words.append("plain-loss")
    if row["date"] < "2025-03-20" and row["other"] != "nn.RMSNorm":
        words.append("own-norms")
    if row["date"] < "2025-04" and number(row, "tp") > 1 and row["compile"] in ("0", ""):
        words.append("recorded-streams")
    return words


def steps_of(row):
    return STEPS if "expandable" in row["alloc_conf"] else STEPS_OF_SEGMENTS


def number(row, name):
    return int(row[name] or 1)


def degrees(row):
    return ["--parallelism.data_parallel_shard_degree", number(row, "fsdp"), "--parallelism.data_parallel_replicate_degree", number(row, "dp_replicate"),
            "--parallelism.tensor_parallel_degree", number(row, "tp"), "--parallelism.pipeline_parallel_degree", number(row, "pp"),
            "--parallelism.context_parallel_degree", number(row, "cp")]


def flags_of_graph_trainer(row, folder):
    """Of torchtitan 0.3, for rows whose whole step is one graph."""
    if row["ac"] not in GRAPH_POLICIES or row["model"] not in ("llama3-8b", "llama3-70b", "llama3-405b"):
        raise NotBuilt(f"{row['model']} with {row['ac']!r} is not known of the graph trainer")
    config = "graph_trainer_" + row["model"].replace("-", "_")
    whole = "chunked" not in row["loss"]
    flags = ["--module", "_torchtitan_graphs" if whole else "graph_trainer.llama3", "--config", config,
             "--compile.memory_policy", GRAPH_POLICIES[row["ac"]],
             "--compile.inductor_compilation", "full" if "full inductor" in row["compile"] else "regional", "--hf_assets_path", folder / "tokenizer",
             "--training.steps", steps_of(row), "--training.seq_len", row["seq_len"], "--training.local_batch_size", row["local_batch"],
             "--dataloader.dataset", "c4_test",
             "--metrics.log_freq", 1, "--metrics.no-enable_tensorboard", "--profiler.no-enable_profiling", *degrees(row)]
    return [str(flag) for flag in flags]


def flags_of(row, release, folder):
    """torchtitan's, as releases before 0.3 have them."""
    if release == "0.3.0":
        return flags_of_graph_trainer(row, folder)
    if row["model"] not in FLAVOURS:
        raise NotBuilt(f"no flavour of torchtitan stands for {row['model']}")
    old = release == "0.1.0"
    changes = changes_of(row, release)
    size = WORDS.get(row["model"], 128256)
    name = "simple_fsdp.llama3" if row["dp_impl"] == "SimpleFSDP" else "compiler_toolkit.llama3" if row["other"] == "graph compiler path" else "llama3"
    flags = ["--model.name", name, "--model.flavor", FLAVOURS[row["model"]], "--training.steps", steps_of(row), "--metrics.log_freq", 1,
             "--training.seq_len", row["seq_len"], "--training.local_batch_size", row["local_batch"],
             "--optimizer.implementation", "fused" if "fused" in row["optimizer"] else "foreach", *degrees(row)]
    flags += ["--model.tokenizer_path", folder / f"tokenizer-{size}.model"] if old else ["--model.hf_assets_path", folder / "tokenizer"]
    if number(row, "pp") > 1 and row["pp_schedule"]:
        flags += ["--parallelism.pipeline_parallel_schedule", row["pp_schedule"].replace(" ", "")]
    kind = row["ac"].split()[0]
    if kind not in ("none", "full", "selective"):
        raise NotBuilt(f"activation checkpointing {row['ac']!r} is not known")
    flags += ["--activation_checkpoint.mode", kind]
    if kind == "selective":
        flags += ["--activation_checkpoint.selective_ac_option", row["ac"].split()[-1]]
    if row["compile"] not in ("0", ""):
        flags += ["--training.compile"] if old else ["--compile.enable"]
    if row["dp_impl"] == "SimpleFSDP":
        flags += ["--compile.backend", "aot_eager", "--job.custom_config_module", "torchtitan.experiments.simple_fsdp.job_config",
                  "--compile.graph_passes", "transformer_block_bucketing"]
    if row["async_tp"] == "1":
        flags += ["--parallelism.enable_async_tensor_parallel"]
    converters = []
    if row["low_precision"] not in ("none", ""):
        flags += float8(row, old)
        converters.append("float8" if old else "quantize.linear.float8")
    if "own-norms" in changes:
        converters.append("own_norms")
    if converters:
        flags += ["--model.converters", ",".join(converters)]
    if "reshard_after_forward=" in row["other"]:
        flags += ["--parallelism.fsdp_reshard_after_forward", row["other"].split("reshard_after_forward=")[1].split(";")[0]]
    if "collection each step" in row["other"]:
        flags += ["--training.gc_freq", 1]
    if changes:
        flags += ["--experimental.custom_import", "_torchtitan_more"]
    return [str(flag) for flag in flags]


def float8(row, old):
    recipe = DTYPES.get(row["low_precision"])
    if recipe is None:
        raise NotBuilt(f"low precision {row['low_precision']!r} is not known")
    group = "--float8." if old else "--quantize.linear.float8."
    flags = [f"{group}filter_fqns", "output"]
    if recipe == "tensorwise":
        return [*flags, f"{group}enable_fsdp_float8_all_gather", f"{group}precompute_float8_dynamic_scale_for_fsdp"]
    return [*flags, f"{group}recipe_name", recipe]


def predict(row, folder):
    """The object that `ebbtide dryrun` prints, or why there is none."""
    release = release_of(row)
    try:
        flags = flags_of(row, release, folder)
        profile = write_profile(row, folder)
    except NotBuilt as reason:
        return str(reason)
    stages, ranks = number(row, "pp"), int(row["gpus"])
    asked = ",".join(str(stage * ranks // stages) for stage in range(stages))  # stages are the outermost axis
    python = environment(release)
    command = [str(PROGRAM), "dryrun", "-q", "--json", "--gpu", str(profile), "--world-size", str(ranks), "--gpus", str(min(8, ranks)), "--ranks", asked,
               "--", str(python), "-m", "torchtitan.train", *flags]
    variables = dict(os.environ, PYTHONPATH=str(ROOT / "bench" / "estimate"), EBBTIDE_MORE=",".join(changes_of(row, release)), OMP_NUM_THREADS="1",
                     HF_HOME=str(folder / "cache"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    variables.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if row["alloc_conf"] not in ("default", ""):
        variables["PYTORCH_CUDA_ALLOC_CONF"] = row["alloc_conf"]
    started = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = started.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        started.terminate()  # passed on to the program
        started.communicate()
        return f"did not end within {LONGEST} s"
    try:
        answer = json.loads(out)
    except json.JSONDecodeError:
        return said.strip()[-300:]
    if answer["exit_code"] or answer["steps"] is None or answer["steps"] < steps_of(row):
        return f"exit code {answer['exit_code']} after {answer['steps']} steps: " + " ".join(said.strip().splitlines()[-3:])[-300:]
    return answer | {"release": release}


def figures(outcomes):
    errors = [answer["peak_reserved_bytes"] / (float(row["max_reserved_GiB"]) * GIB) - 1 for row, answer in outcomes]
    if not errors:
        return {"n": 0}
    sizes = sorted(map(abs, errors))
    return {"n": len(sizes), "median_error": statistics.median(sizes), "p90_error": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
            "worst_error": sizes[-1], "too_low_share": sum(e < 0 for e in errors) / len(errors)}


def print_row(row, answer):
    measured = float(row["max_reserved_GiB"])
    active = float(row["max_active_GiB"]) if row["max_active_GiB"] else None
    beside = f"  active {active:6.2f} {answer['peak_allocated_bytes'] / GIB:6.2f}" if active else ""
    print(f"{row['row_id']} {row['technique']:13} {row['model']:10} {row['gpus']:>4} {row['ac']:13.13} {row['compile']:9.9} {measured:7.2f} "
          f"{answer['peak_reserved_bytes'] / GIB:7.2f} {answer['peak_reserved_bytes'] / GIB / measured - 1:8.2%}  torchtitan {answer['release']}, "
          f"torch {answer['torch']}{beside}", flush=True)


def run(options):
    with open(options.rows, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] == "ok" and options.only.lower() in (row["row_id"] + " " + row["model"]).lower()]
    if not rows:
        raise BadInput(f"{options.rows}: no row of a job that fitted")
    if options.sample:
        rows = [rows[i * len(rows) // options.sample] for i in range(min(options.sample, len(rows)))]
    for release in sorted({release_of(row) for row in rows}):
        environment(release)
    outcomes, missing = [], []
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        write_assets(folder)
        for row, answer in zip(rows, pool.map(lambda row: predict(row, folder), rows)):
            if isinstance(answer, str):
                print(f"accuracy: {row['row_id']}: not built: {answer}", file=sys.stderr, flush=True)
                missing.append((row, answer))
                continue
            outcomes.append((row, answer))
            if not options.json:
                print_row(row, answer)
    summary = figures(outcomes) | {"not_built": len(missing)}
    if options.json:
        listed = [{"path": row["row_id"], "predicted_bytes": answer["peak_reserved_bytes"], "safe_bytes": None, "torchtitan": answer["release"],
                   "torch": answer["torch"]} for row, answer in outcomes]
        listed += [{"path": row["row_id"], "predicted_bytes": None, "safe_bytes": None, "error": answer} for row, answer in missing]
        print(json.dumps({"rows": listed, "summary": summary}, indent=1))
    elif outcomes:
        print(f"{summary['n']} rows, {len(missing)} not built: median {summary['median_error']:.2%}, p90 {summary['p90_error']:.2%}, worst "
              f"{summary['worst_error']:.2%}, too low in {summary['too_low_share']:.0%}")
    return 1 if missing else 0
