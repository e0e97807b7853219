"""python -m ebbtide.commands.verify [MODEL[:BATCH] ...]: what `ebbtide verify` starts. Estimates, runs on the phantom GPU and runs on the real one,
side by side; where no GPU is, the phantom stands in for it.

Exit 0; 3 where something did not keep what was promised; 2 with one line on standard error."""

import argparse
import json
import subprocess
import sys

from .. import progress
from ..__main__ import find_program
from ..files import write_text
from .script import module_command

BROKEN = 3
DEFAULT = ("resnet50:32", "vgg16:32", "bert-base:8", "gpt2:4")
BUDGET = "70%"
NO_GPU = "a100-40gb"  # that the phantom is, where no GPU is and none is named
_GIB = 2**30


class Problem(Exception):
    """What went wrong, in one line."""


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        found = verify(options, progress.reporter(options.quiet))
    except Problem as error:
        print(f"ebbtide: {error}", file=sys.stderr)
        return 2
    text = json.dumps(found, indent=2) + "\n"
    shown = table(found)
    print(text if options.json else shown, end="")
    if options.output:
        write_text(options.output, text if options.output.endswith(".json") else shown)
    return 0 if found["kept"] else BROKEN


def _parser():
    parser = argparse.ArgumentParser(prog="ebbtide verify")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--gpu")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--no-train", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o", "--output")
    parser.add_argument("-q", "--quiet", action="store_true")
    return parser


def verify(options, note):
    """The object that --json prints."""
    device = _last_line([*module_command("verify_job"), "--device"])
    gpu = options.gpu or (_profile_of(device) if device else NO_GPU)
    rows, runs = [], []
    for word in options.models or DEFAULT:
        model, batch = _split(word)
        rows.append(_row(model, batch, options.optimizer, gpu, bool(device), note))
        if not options.no_train:
            note(f"{model}: training within {BUDGET}")
            runs.append(_train(model, batch, options.optimizer, gpu, bool(device)))
    note("")
    kept = all(row["within_safe"] for row in rows) and all(run["kept"] for run in runs)
    return {"schema_version": 1, "command": "verify", "gpu": gpu, "device": device.get("product"),
            "measured_on": "gpu" if device else "phantom", "kept": kept, "rows": rows, "trainings": runs}


def _split(word):
    model, colon, batch = word.partition(":")
    if not colon:
        batch = dict(w.split(":") for w in DEFAULT).get(model, "8")
    if not batch.isdecimal() or int(batch) < 1:
        raise Problem(f"{word}: expected MODEL or MODEL:BATCH, with a batch from 1 on")
    return model, int(batch)


def _row(model, batch, optimizer, gpu, real, note):
    job = [*module_command("verify_job"), model, str(batch), optimizer]
    shape = [model, "--batch-size", str(batch), "--optimizer", optimizer, "--gpu", gpu]
    note(f"{model}: estimating")
    estimate = _json([_program(), "estimate", *shape, "--json", "-q"], accepted=(0, 1))
    time = _json([_program(), "plan", *shape, "--policy", "none", "--budget", "1000%", "--no-bound", "--json", "-q"], accepted=(0, 1))
    note(f"{model}: on the phantom GPU")
    dryrun = _json([_program(), "dryrun", "--gpu", gpu, "--json", "-q", "--", *job])
    note(f"{model}: {'measuring' if real else 'measuring, on the phantom GPU'}")
    measured = _last_line(job if real else [_program(), "dryrun", "--gpu", gpu, "-q", "--", *job])
    fields = ("peak_allocated_bytes", "peak_reserved_bytes")
    return {"model": model, "batch": batch, "optimizer": optimizer,
            "predicted": {f: estimate[f] for f in (*fields, "total_bytes", "safe_bytes")} | {"step_ns": time["plain_time_ns"]},
            "dryrun": {f: dryrun[f] for f in (*fields, "total_bytes")},
            "measured": measured if real else {f: measured[f] for f in fields},
            "within_safe": measured["peak_reserved_bytes"] + estimate["total_bytes"] - estimate["peak_reserved_bytes"] <= estimate["safe_bytes"]}


def _train(model, batch, optimizer, gpu, real):
    """`ebbtide train` on the GPU within the budget, or the smallest that works. Where kernels are skipped there are no numbers to compare."""

    def within(budget):
        command = [*module_command("train"), "train", model, f"--batch-size={batch}", f"--optimizer={optimizer}",
                   f"--budget={budget}", "--device=cuda", "--steps=3", "--json", "-q"]
        return _last_line([*command, "--check"] if real else [_program(), "dryrun", "--gpu", gpu, "-q", "--", *command])

    said = within(BUDGET)
    if not said["feasible"]:
        said = within(said["minimum_budget_bytes"])
    return {"model": model, "batch": batch, "kept": said["peak_bytes"] <= said["budget_bytes"] and said.get("same_bits", True)} | {
        field: said[field] for field in ("budget_bytes", "peak_bytes", "plain_peak_bytes")} | {"same_bits": said.get("same_bits")} | {
        "time_ns": said["time_ns"] if real else None, "predicted_ns": said["predicted"]["time_ns"] if real else None}


def _profile_of(device):
    """The name of the profile for a device: the same product, the nearest memory."""
    gpus = _json([_program(), "gpus", "--json"])["gpus"]
    plain = device["product"].removeprefix("NVIDIA ")
    fitting = [gpu for gpu in gpus if gpu["product"].removeprefix("NVIDIA ") == plain]
    if not fitting:
        raise Problem(f"no profile for {device['product']}: expected --gpu NAME or FILE (docs/phantom.md tells how to write one)")
    return min(fitting, key=lambda gpu: abs(gpu["memory_bytes"] - device["memory_bytes"]))["name"]


def _program():
    program = find_program()
    if program is None:
        raise Problem("the program `ebbtide` is not beside the package; install the package again")
    return program


def _run(command, accepted):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in accepted:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        raise Problem(lines[-1].removeprefix("ebbtide: "))
    return done.stdout


def _json(command, accepted=(0,)):
    return json.loads(_run(command, accepted))


def _last_line(command):
    """The object that a program prints last."""
    return json.loads(_run(command, (0, 3)).strip().splitlines()[-1])


def table(found):
    """For reading."""
    where = found["device"] if found["measured_on"] == "gpu" else "no GPU here: the phantom GPU stands in for it"
    lines = [f"{found['gpu']}; measured: {where}", ""]
    lines.append(f"{'':18} {'peak reserved':^32}   {'peak allocated':^32}   {'step time':^21}")
    three = f"{'predicted':>10} {'dryrun':>10} {'measured':>10}"
    lines.append(f"{'model':12} {'batch':>5} {three}   {three}   {'predicted':>10} {'measured':>10}")
    for row in found["rows"]:
        cells = []
        for field in ("peak_reserved_bytes", "peak_allocated_bytes"):
            cells.append(" ".join(f"{row[who][field] / _GIB:6.2f} GiB" for who in ("predicted", "dryrun", "measured")))
        measured = row["measured"].get("step_ns")
        cells.append(f"{row['predicted']['step_ns'] / 1e6:7.1f} ms " + (f"{measured / 1e6:7.1f} ms" if measured else f"{'-':>10}"))
        lines.append(f"{row['model']:12} {row['batch']:5} " + "   ".join(cells) + ("" if row["within_safe"] else "  ABOVE the safe estimate"))
    for run in found["trainings"]:
        bits = {None: "bits not compared: kernels are skipped", True: "same bits as plain PyTorch", False: "OTHER BITS than plain PyTorch"}
        lines.append(("\n" if run is found["trainings"][0] else "") + f"{run['model']}: trained within {run['budget_bytes'] / _GIB:.2f} GiB of "
                     f"{run['plain_peak_bytes'] / _GIB:.2f}, peak {run['peak_bytes'] / _GIB:.2f}; {bits[run['same_bits']]}"
                     + (f"; step {run['time_ns'] / 1e6:.1f} ms, predicted {run['predicted_ns'] / 1e6:.1f}" if run["time_ns"] else ""))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
