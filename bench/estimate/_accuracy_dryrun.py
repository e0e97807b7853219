"""Peaks by `ebbtide dryrun`: each job runs on the phantom GPU with the software that the rows were measured with."""

import json
import os
import pathlib
import subprocess

from _accuracy_estimate import PROGRAM
from _accuracy_rows import ZERO_GRAD, BadInput

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Dryrun:
    """Predicts rows of xmem.csv; may be asked by several threads."""

    def __init__(self):
        self.python = subprocess.run([ROOT / "scripts" / "setup-python", "bench/estimate/xmem.lock"], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout.strip() + "/bin/python"
        listed = subprocess.run([PROGRAM, "gpus", "--json"], check=True, capture_output=True, text=True)
        self.gpus = {gpu["product"]: gpu["name"] for gpu in json.loads(listed.stdout)["gpus"]}
        self.done = {}
        self.loaded_code = 0  # the one constant in a prediction

    def command(self, row):
        if row.gpu not in self.gpus:
            raise BadInput(f"{row.path}: no profile is for the GPU {row.gpu}")
        position = row.source.get("zero_grad_mode_in_file") or ""
        # The first campaign, whose rows do not state the position, ran without cuBLAS workspaces.
        flags = () if position in ZERO_GRAD else ("--no-cublas-workspace",)
        return (str(PROGRAM), "dryrun", "--json", "--gpu", self.gpus[row.gpu], "--",
                self.python, str(ROOT / "bench" / "estimate" / "_xmem_job.py"), row.model, row.optimizer, str(row.batch),
                "--zero-grad", ZERO_GRAD.get(position, "start"), *flags)

    def predict(self, row):
        """What a meter that was started with the job would have shown, and whether the job ran out of memory."""
        command = self.command(row)
        if command not in self.done:
            environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1")
            run = subprocess.run(command, capture_output=True, text=True, env=environment)
            try:
                answer = json.loads(run.stdout)
            except json.JSONDecodeError:
                raise BadInput(f"{row.path}: {' '.join(command)}: {run.stderr.strip()[-500:]}") from None
            if answer["exit_code"] != 0 and not answer["oom"]:
                raise BadInput(f"{row.path}: the job failed: {run.stderr.strip()[-500:]}")
            rise = answer["total_bytes"] - answer["context_bytes"] - first_reading(run.stderr)
            self.loaded_code = answer["loaded_code_bytes"]
            self.done[command] = rise, answer["oom"]
        return self.done[command]


def first_reading(output):
    """Bytes that lay on the device already when the measurement began; the job says so where it was not at once."""
    found = [line.split()[-1] for line in output.splitlines() if line.startswith("first reading ")]
    return int(found[0]) if found else 0
