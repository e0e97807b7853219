"""Predictions beside measurements made by others: every job of a file is built anew, its peak predicted, and the
errors summed up beside those of the tools whose estimates the file holds.

    build/python bench/accuracy.py --dataset xmem --via dryrun --rows FILE.csv [--json] [--only MODEL] [--jobs N]

The phantom runs each job with the software of the measurements (bench/xmem.lock), in an environment made at the first use."""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(os.environ.get("EBBTIDE_DATA", ROOT.parent / "shared" / "data"))
PEERS = ("xmem", "dnnmem", "schedtune", "llmem")
ZERO_GRAD = {"0": "start", "1": "before-backward", "2": "end"}
MIB = 2**20


class BadInput(Exception):
    """One line for the user; exit code 2."""


def read_rows(path):
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: {error}") from None
    needed = ("path", "gpu", "model", "optimizer", "batch_size", "ground_bytes")
    for line, row in enumerate(rows, 2):
        missing = [name for name in needed if not row.get(name)]
        if missing:
            raise BadInput(f"{path}: line {line}: expected a value in column {missing[0]}")
    return [row for row in rows if row.get("real_oom", "false").lower() != "true"]


class Dryrun:
    """Runs jobs under the phantom GPU with the software that the rows were measured with."""

    def __init__(self):
        self.python = subprocess.run([ROOT / "scripts" / "setup-python", "bench/xmem.lock"], check=True, text=True,
                                     stdout=subprocess.PIPE).stdout.strip() + "/bin/python"
        listed = subprocess.run([ROOT / "build" / "ebbtide", "gpus", "--json"], check=True, capture_output=True, text=True)
        self.gpus = {gpu["product"]: gpu["name"] for gpu in json.loads(listed.stdout)["gpus"]}
        self.done = {}
        self.loaded_code = 0  # the one constant in a prediction

    def command(self, row):
        if row["gpu"] not in self.gpus:
            raise BadInput(f"{row['path']}: no profile is for the GPU {row['gpu']}")
        position = row.get("zero_grad_mode_in_file") or ""
        # The first campaign, whose rows do not state the position, ran without cuBLAS workspaces.
        flags = () if position in ZERO_GRAD else ("--no-cublas-workspace",)
        return (str(ROOT / "build" / "ebbtide"), "dryrun", "--json", "--gpu", self.gpus[row["gpu"]], "--",
                self.python, str(ROOT / "bench" / "_xmem_job.py"), row["model"], row["optimizer"], row["batch_size"],
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
                raise BadInput(f"{row['path']}: {' '.join(command)}: {run.stderr.strip()[-500:]}") from None
            if answer["exit_code"] != 0 and not answer["oom"]:
                raise BadInput(f"{row['path']}: the job failed: {run.stderr.strip()[-500:]}")
            rise = answer["total_bytes"] - answer["context_bytes"] - first_reading(run.stderr)
            self.loaded_code = answer["loaded_code_bytes"]
            self.done[command] = rise, answer["oom"]
        return self.done[command]


def first_reading(output):
    """Bytes that lay on the device already when the measurement began; the job says so where it was not at once."""
    found = [line.split()[-1] for line in output.splitlines() if line.startswith("first reading ")]
    return int(found[0]) if found else 0


def error(prediction, row):
    return prediction / int(row["ground_bytes"]) - 1


def peer_errors(rows, peer):
    column = f"{peer}_est_bytes"
    return [error(float(row[column]), row) for row in rows if row.get(column)]


def summary(errors, models):
    """Figures over rows; errors are fractions of what was measured."""
    sizes = sorted(abs(e) for e in errors)
    by_model = {}
    for e, model in zip(errors, models):
        by_model.setdefault(model, []).append(abs(e))
    return {
        "n": len(sizes),
        "median_error": statistics.median(sizes),
        "p90_error": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        "too_low_share": sum(e < 0 for e in errors) / len(errors),
        "median_of_model_medians": statistics.median(statistics.median(v) for v in by_model.values()),
    }


def leave_one_out(rows, predictions, constant):
    """The errors where the constant in each prediction is what the other models' rows say it is: the median of what was
    measured beyond the rest. None where there is one model only."""
    beyond = [int(row["ground_bytes"]) - (p - constant) for row, p in zip(rows, predictions)]
    models = [row["model"] for row in rows]
    if len(set(models)) < 2:
        return None
    fitted = {model: statistics.median(b for b, m in zip(beyond, models) if m != model) for model in set(models)}
    return [error(p - constant + fitted[row["model"]], row) for row, p in zip(rows, predictions)]


def is_image_model(row):
    return "/" not in row["model"] and not row["model"].lower().startswith("t5")


def print_summary(rows, errors):
    groups = {"all": rows, "images": [r for r in rows if is_image_model(r)], "text": [r for r in rows if not is_image_model(r)]}
    print(f"{'':22} {'rows':>5} {'median':>8} {'p90':>8} {'too low':>8} {'median of models':>17}")
    ours = {row["path"]: e for row, e in zip(rows, errors)}
    for group, members in groups.items():
        if not members:
            continue
        lines = {"ebbtide": ([ours[r["path"]] for r in members], [r["model"] for r in members])}
        for peer in PEERS:
            with_peer = [r for r in members if r.get(f"{peer}_est_bytes")]
            lines[peer] = peer_errors(with_peer, peer), [r["model"] for r in with_peer]
        for name, (values, models) in lines.items():
            if values:
                s = summary(values, models)
                print(f"{group:10} {name:11} {s['n']:5} {s['median_error']:8.2%} {s['p90_error']:8.2%} "
                      f"{s['too_low_share']:8.1%} {s['median_of_model_medians']:17.2%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dataset", choices=("xmem",), default="xmem")
    parser.add_argument("--rows", type=pathlib.Path, default=DATA / "measured" / "xmem.csv")
    parser.add_argument("--via", choices=("dryrun",), default="dryrun")
    parser.add_argument("--only", default="", help="rows whose model has this in its name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.rows.exists():
        print(f"accuracy: {options.rows} is not there; EBBTIDE_DATA names the folder of measurements")
        return 0
    rows = [row for row in read_rows(options.rows) if options.only.lower() in row["model"].lower()]
    if not rows:
        raise BadInput(f"{options.rows}: no row of a job that fitted")
    method = Dryrun()
    predictions = []
    if not options.json:
        print(f"{'model':28} {'gpu':>9} {'optimizer':>10} {'batch':>6} {'measured':>9} {'predicted':>9} {'error':>8} "
              f"{'xMem':>8}   MiB")
    with ThreadPoolExecutor(options.jobs) as pool:
        for row, (predicted, oom) in zip(rows, pool.map(method.predict, rows)):
            predictions.append(predicted)
            if not options.json:
                peer = f"{error(float(row['xmem_est_bytes']), row):8.2%}" if row.get("xmem_est_bytes") else " " * 8
                print(f"{row['model'].split('/')[-1][:28]:28} {row['gpu'][-9:]:>9} {row['optimizer']:>10} "
                      f"{row['batch_size']:>6} {int(row['ground_bytes']) / MIB:9.0f} {predicted / MIB:9.0f} "
                      f"{error(predicted, row):8.2%} {peer}{'  out of memory' if oom else ''}", flush=True)
    errors = [error(p, row) for p, row in zip(predictions, rows)]
    if options.json:
        print(json.dumps({
            "rows": [{"path": row["path"], "predicted_bytes": p} for row, p in zip(rows, predictions)],
            "summary": summary(errors, [row["model"] for row in rows])}, indent=1))
    else:
        print_summary(rows, errors)
        without = leave_one_out(rows, predictions, method.loaded_code)
        if without is not None:
            s = summary(without, [row["model"] for row in rows])
            print(f"loaded code from the other models' rows instead of {method.loaded_code / MIB:.0f} MiB: median "
                  f"{s['median_error']:.2%}, p90 {s['p90_error']:.2%}, median of models {s['median_of_model_medians']:.2%}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as bad:
        print(f"accuracy: {bad}", file=sys.stderr)
        sys.exit(2)
