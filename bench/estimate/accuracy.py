"""Predictions beside measurements made by others: every job of a file is built anew, its peak predicted, and the
errors summed up beside those of the tools whose estimates the file holds.

    build/python bench/estimate/accuracy.py --dataset xmem|mlp|timm|fms|torchtitan [--rows FILE.csv] [--json] [--only MODEL] [--sample N] [--models N]
                                                [--jobs N]
    build/python bench/estimate/accuracy.py --dataset xmem|fms --via dryrun ...

By `ebbtide estimate`, or, with --via dryrun, on the phantom GPU. docs/accuracy.md says what each figure rests on."""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from _accuracy_rows import MIB, PEERS, BadInput, read_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("EBBTIDE_DATA", ROOT.parent / "shared" / "data"))
FILES = {"xmem": "xmem.csv", "mlp": "mlp_a100.csv", "timm": "timm_a100.csv", "fms": "fms.csv", "torchtitan": "torchtitan.csv"}
# What the meter showed beside the job's reserved memory: context, libraries, other users of the card. The one constant
# of a file whose meter began at nothing; each was fitted to the file it stands for.
BESIDE = {"mlp": 1429 * MIB, "timm": 1719 * MIB}
MANY_MODELS = 100  # then one more or less says nothing about a margin


class Outcome:
    """A row, what was predicted for it, and which part of that is the constant."""

    def __init__(self, row, predicted, safe=None, constant=0, images=True, note=""):
        self.row, self.predicted, self.safe, self.constant, self.images, self.note = row, predicted, safe, constant, images, note

    @property
    def error(self):
        return self.row.error(self.predicted)


def by_estimate(estimates, dataset, row):
    answer = estimates.predict(row)
    images = answer["meta"].get("input") != "text"
    if dataset == "xmem":
        before = answer["reserved_before_training_bytes"] if images and row.meter_after_model else 0
        constant, beside = answer["loaded_code_bytes"], -before
    else:
        constant = beside = BESIDE[dataset]
        beside -= answer["loaded_code_bytes"]
    predicted = answer["total_bytes"] - answer["context_bytes"] + beside
    # A context is no part of what is compared, or lies in the constant, as it was measured: nor is what another may take.
    margin = answer["safe_bytes"] - answer["total_bytes"] - answer["safe_context_bytes"]
    return Outcome(row, predicted, predicted + margin, constant, images, "" if answer["fits"] else "does not fit")


def by_dryrun(dryrun, row):
    predicted, oom = dryrun.predict(row)
    images = "/" not in row.model and not row.model.lower().startswith("t5")
    return Outcome(row, predicted, None, dryrun.loaded_code, images, "out of memory" if oom else "")


def summary(errors, models):
    """Figures over rows; errors are fractions of what was measured."""
    sizes = sorted(abs(e) for e in errors)
    by_model = {}
    for e, model in zip(errors, models):
        by_model.setdefault(model, []).append(abs(e))
    return {
        "n": len(sizes),
        "median_error": statistics.median(sizes),
        "p90_error": percentile(sizes, 0.9),
        "p95_error": percentile(sizes, 0.95),
        "too_low_share": sum(e < 0 for e in errors) / len(errors),
        "median_of_model_medians": statistics.median(statistics.median(v) for v in by_model.values()),
    }


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def safety(outcomes):
    """How often the safe figure was enough, and by how much it exceeds what was measured."""
    ratios = [o.safe / o.row.measured - 1 for o in outcomes if o.safe is not None]
    if not ratios:
        return {}
    return {"safe_enough_share": sum(r >= 0 for r in ratios) / len(ratios), "safe_median_excess": statistics.median(ratios)}


def smallest_margin(outcomes):
    """The margin, in fifths of the rule's own, that is enough in 98 of 100 of these rows: the least such."""
    for fifths in range(1, 26):
        enough = sum(o.predicted + fifths / 5 * (o.safe - o.predicted) >= o.row.measured for o in outcomes)
        if enough >= 0.98 * len(outcomes):
            break
    return fifths / 5


def margin_left_out(outcomes):
    """The same where each model's margin is scaled to what the rows of the others need."""
    models = {o.row.model for o in outcomes}
    if not 2 <= len(models) <= MANY_MODELS or any(o.safe is None for o in outcomes):
        return {}
    scale = {model: smallest_margin([o for o in outcomes if o.row.model != model]) for model in models}
    scaled = [Outcome(o.row, o.predicted, o.predicted + scale[o.row.model] * (o.safe - o.predicted)) for o in outcomes]
    return safety(scaled)


def leave_one_out(outcomes):
    """The errors where the constant in each prediction is what the other models' rows say it is: the median of what was
    measured beyond the rest. None where there is one model only."""
    beyond = {}
    for o in outcomes:
        beyond.setdefault(o.row.model, []).append(o.row.measured - (o.predicted - o.constant))
    if len(beyond) < 2:
        return None
    every = sorted(b for values in beyond.values() for b in values)
    fitted = {model: median_without(every, values) for model, values in beyond.items()}
    return [o.row.error(o.predicted - o.constant + fitted[o.row.model]) for o in outcomes]


def median_without(ordered, left_out):
    """The median of sorted values, some of them left out."""
    kept, rest = [], sorted(left_out)
    for value in ordered:
        if rest and value == rest[0]:
            rest.pop(0)
        else:
            kept.append(value)
    return statistics.median(kept)


def print_row(outcome, peers):
    row = outcome.row
    shown = "".join(f" {row.error(row.peers[p]):8.2%}" if p in row.peers else " " * 9 for p in peers[:1])
    print(f"{row.model.split('/')[-1][:32]:32} {row.gpu[-9:]:>9} {row.optimizer:>9} {row.batch:6} {row.measured / MIB:9.0f} "
          f"{outcome.predicted / MIB:9.0f} {outcome.error:8.2%}{shown}{'  ' + outcome.note if outcome.note else ''}", flush=True)


def print_summary(outcomes, peers, has_constant):
    groups = {"all": outcomes}
    if len({o.images for o in outcomes}) == 2:
        groups |= {"images": [o for o in outcomes if o.images], "text": [o for o in outcomes if not o.images]}
    print(f"{'':25} {'rows':>4} {'median':>8} {'p90':>8} {'p95':>8} {'too low':>8} {'median of models':>17}")
    for group, members in groups.items():
        lines = {"ebbtide": [(o.error, o.row.model) for o in members]}
        for peer in peers:
            theirs = [o.row for o in members if peer in o.row.peers]
            lines[peer] = [(row.error(row.peers[peer]), row.model) for row in theirs]
            if has_constant and theirs:  # as good a one as ours
                beside = statistics.median(row.measured - row.peers[peer] for row in theirs)
                lines[f"{peer} + {beside / MIB:.0f}"] = [(row.error(row.peers[peer] + beside), row.model) for row in theirs]
        for name, values in lines.items():
            if values:
                s = summary(*zip(*values))
                print(f"{group:7} {name:17} {s['n']:4} {s['median_error']:8.2%} {s['p90_error']:8.2%} {s['p95_error']:8.2%} "
                      f"{s['too_low_share']:8.1%} {s['median_of_model_medians']:17.2%}")


def print_constants(outcomes):
    without = leave_one_out(outcomes)
    if without is not None:
        s = summary(without, [o.row.model for o in outcomes])
        print(f"the constant from the other models' rows instead of {outcomes[0].constant / MIB:.0f} MiB: median "
              f"{s['median_error']:.2%}, p90 {s['p90_error']:.2%}, p95 {s['p95_error']:.2%}, median of models "
              f"{s['median_of_model_medians']:.2%}")
    safe = safety(outcomes)
    if safe:
        print(f"safe figure: enough in {safe['safe_enough_share']:.1%} of the rows, median excess {safe['safe_median_excess']:.2%}")
    left_out = margin_left_out(outcomes)
    if left_out:
        print(f"its margin scaled to the other models' rows: enough in {left_out['safe_enough_share']:.1%}, "
              f"median excess {left_out['safe_median_excess']:.2%}")


def sampled(rows, count):
    """Every so manieth, so that the same ones are taken each time."""
    return rows if not count or count >= len(rows) else [rows[i * len(rows) // count] for i in range(count)]


def of_models(rows, count):
    """All rows of so many models, drawn at random, the same ones each time; of fewer, a part of those of more."""
    models = list(dict.fromkeys(row.model for row in rows))
    random.Random(1).shuffle(models)
    kept = set(models[:count] if count else models)
    return [row for row in rows if row.model in kept]


def outcomes_of(rows, options):
    """In the order of the rows; a string, why it cannot be built, in the place of a row that cannot."""
    from _accuracy_estimate import Estimates, NotBuilt

    if options.via == "dryrun":
        from _accuracy_dryrun import Dryrun

        dryrun = Dryrun()
        with ThreadPoolExecutor(options.jobs) as pool:
            yield from pool.map(lambda row: by_dryrun(dryrun, row), rows)
        return

    with Estimates(options.dataset, rows, options.python) as estimates:
        def predict(row):
            try:
                return by_estimate(estimates, options.dataset, row)
            except NotBuilt as failure:
                return str(failure)

        with ThreadPoolExecutor(options.jobs) as pool:
            yield from pool.map(predict, rows)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dataset", choices=tuple(FILES), default="xmem")
    parser.add_argument("--rows", type=pathlib.Path, help="a file with the columns of the data set's own")
    parser.add_argument("--via", choices=("estimate", "dryrun"), default="estimate")
    parser.add_argument("--only", default="", help="rows whose model has this in its name")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N rows, evenly spread over the file")
    parser.add_argument("--models", type=int, default=0, metavar="N", help="all rows of N models, drawn at random")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--python", help="capture with the packages of this Python instead of those of the measurements")
    parser.add_argument("--first-reading", choices=("before-model", "after-model"),
                        help="when the meter of image models began; without it, as the row's part of the data set has it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.first_reading and options.dataset != "xmem":
        raise BadInput(f"--first-reading: expected --dataset xmem, whose meter shows a rise, found {options.dataset}")
    if options.via == "dryrun" and options.dataset not in ("xmem", "fms"):
        raise BadInput(f"--via dryrun: expected --dataset xmem or fms, found {options.dataset}")
    options.rows = options.rows or DATA / "measured" / FILES[options.dataset]
    return options


def main():
    options = parse_options()
    if not options.rows.exists():
        print(f"accuracy: {options.rows} is not there; EBBTIDE_DATA names the folder of measurements")
        return 0
    if options.dataset == "fms":
        import _accuracy_fms

        return _accuracy_fms.run(options)
    if options.dataset == "torchtitan":
        import _accuracy_torchtitan

        return _accuracy_torchtitan.run(options)
    rows = [row for row in read_rows(options.rows, options.dataset) if options.only.lower() in row.model.lower()]
    if not rows:
        raise BadInput(f"{options.rows}: no row of a job that fitted")
    rows = sampled(of_models(rows, options.models), options.sample)
    if options.first_reading:
        for row in rows:
            row.meter_after_model = options.first_reading == "after-model"
    peers = PEERS[options.dataset]
    if not options.json:
        print(f"{'model':32} {'gpu':>9} {'optimizer':>9} {'batch':>6} {'measured':>9} {'predicted':>9} {'error':>8} "
              f"{peers[0] if peers else '':>8}   MiB")
    outcomes, missing = [], []
    for row, outcome in zip(rows, outcomes_of(rows, options)):
        if isinstance(outcome, str):
            print(f"accuracy: {row.path}: not built: {outcome}", file=sys.stderr, flush=True)
            missing.append({"path": row.path, "predicted_bytes": None, "safe_bytes": None, "error": outcome})
            continue
        outcomes.append(outcome)
        if not options.json:
            print_row(outcome, peers)
    if options.json:
        figures = summary([o.error for o in outcomes], [o.row.model for o in outcomes]) if outcomes else {"n": 0}
        left_out = leave_one_out(outcomes) if outcomes else None
        if left_out is not None:
            figures["constant_left_out"] = summary(left_out, [o.row.model for o in outcomes])
        figures |= {f"{name}_left_out": value for name, value in margin_left_out(outcomes).items()}
        listed = [{"path": o.row.path, "predicted_bytes": round(o.predicted), "safe_bytes": o.safe and round(o.safe)} for o in outcomes]
        print(json.dumps({"rows": listed + missing, "summary": figures | safety(outcomes) | {"not_built": len(missing)}}, indent=1))
    elif outcomes:
        print_summary(outcomes, peers, options.dataset in BESIDE)
        print_constants(outcomes)
    return 1 if missing else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as bad:
        print(f"accuracy: {bad}", file=sys.stderr)
        sys.exit(2)
