"""Fine-tunes of fms.csv on the phantom GPU, by their own libraries (_fms_job.py) in the versions of fms.lock: what torch has allocated at most and at the end,
and what it has reserved. Rows of other versions are left out, by name."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
TRANSFORMERS = "4.48.1"  # of fms.lock
STEPS = 3
# What `accelerate launch` would set, with the benchmark's own configuration of FSDP.
FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_SHARDING_STRATEGY": "FULL_SHARD", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_BACKWARD_PREFETCH": "BACKWARD_PRE", "FSDP_FORWARD_PREFETCH": "false", "FSDP_OFFLOAD_PARAMS": "false",
        "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT", "FSDP_USE_ORIG_PARAMS": "true", "FSDP_SYNC_MODULE_STATES": "false",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}


def why_not(row):
    """Why a row is not run; None: it is."""
    if row["transformers"] != TRANSFORMERS:
        return f"not run: made with transformers {row['transformers']}, bench/estimate/fms.lock has {TRANSFORMERS}"
    if row["method"] == "lora_gptq4":
        return "not run: GPTQ's loader asks for a quantised checkpoint"
    if row["gpus"] != "1" and row["method"] == "qlora_nf4":
        return "not run: bitsandbytes' loader for shards asks for a checkpoint"
    return None


class Dryrun:
    def __init__(self, program):
        self.program = program
        self.python = subprocess.run([ROOT / "scripts" / "setup-python", "bench/estimate/fms.lock"], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout.strip() + "/bin/python"

    def answer(self, row, model, folder, gpu):
        """In the words of `estimate --json`, without a safe figure; a string where there is none."""
        if reason := why_not(row):
            return reason
        gpus, result = int(row["gpus"]), folder / f"{row['row_id']}.result.json"
        job = {key: row[key] for key in ("method", "kernels", "weights_dtype", "amp")} | {
            "config": model[0], "words": model[1], "seq_len": int(row["seq_len"]), "microbatch": int(row["microbatch"]), "gpus": gpus, "steps": STEPS,
            "result": str(result), "loads_on": "cpu" if gpus > 1 else "cuda"}
        path = folder / f"{row['row_id']}.job.json"
        path.write_text(json.dumps(job))
        more = {} if gpus == 1 else FSDP | {"ACCELERATE_MIXED_PRECISION": "no" if row["amp"] == "none" else row["amp"]}
        ranks = [] if gpus == 1 else ["--world-size", str(gpus), "--ranks", "0"]
        run = subprocess.run([self.program, "dryrun", "-q", "--json", "--gpu", gpu, *ranks, "--", self.python, HERE / "_fms_job.py", path],
                             capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"} | more)
        said = json.loads(run.stdout) if run.stdout.strip() else {}
        if said.get("oom"):
            return said | {"fits": False, "end_allocated_bytes": 0, "safe_bytes": None}
        if not result.exists():
            return f"the job ended with {run.returncode}: {(run.stderr.strip().splitlines() or ['no word'])[-1][-200:]}"
        found = json.loads(result.read_text())
        return {"fits": True, "peak_allocated_bytes": found["allocated"], "end_allocated_bytes": found["end"], "total_bytes": said["total_bytes"],
                "safe_bytes": None}
