"""Scratch memory by op: what `ebbtide estimate` counts beside what PyTorch asks its allocator for on the phantom GPU.

    build/python bench/estimate/scratch_bench.py [--gpu NAME] [--sizes small middle large] [--only PROGRAM] [--all] [--json]

Over 370 small programs (bench/estimate/_scratch_cases.py) with their gradients and updates, at three sizes, with inputs as they lie and turned.
Each kind of op is one of: by rule, and equal everywhere; none needed, and none asked for; or measured when a program is captured, and named
as not counted where it was not. The exit code is 1 where a rule differs, or fewer than 150 kinds were seen."""

import argparse
import json
import subprocess
import sys

from _accuracy_estimate import HERE, phantom_environment

LEAST_KINDS = 150


def rows_of(options):
    command = [sys.executable, HERE / "_scratch_job.py", "--gpu", options.gpu, "--only", options.only, "--sizes", *options.sizes]
    environment = phantom_environment(sys.executable) | {"EBBTIDE_PHANTOM_PROFILE": options.gpu}
    with subprocess.Popen(command, text=True, env=environment, stdout=subprocess.PIPE) as run:
        for line in run.stdout:
            yield json.loads(line)
        if run.wait() != 0:
            raise SystemExit(f"scratch_bench: the programs ended with {run.returncode}")


class Kind:
    """What was seen of one kind of op."""

    def __init__(self):
        self.calls, self.named, self.most, self.differs = 0, 0, 0, []

    def add(self, row, op):
        self.calls += 1
        self.most = max(self.most, op["asked"] or 0)
        if op["counted"] is None:
            self.named += 1
        elif op["asked"] is not None and op["asked"] != op["counted"]:
            self.differs.append((f"{row['program']}, {row['size']}{', turned' if row['turned'] else ''}, {op['phase']}", op["counted"], op["asked"]))

    def verdict(self):
        if self.differs:
            return "DIFFERS"
        if self.named:
            return "measured or named"
        return "by rule" if self.most else "needs none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpu", default="a100-80gb")
    parser.add_argument("--sizes", nargs="+", default=["small", "middle", "large"])
    parser.add_argument("--only", default="", help="programs in whose name this regular expression is found")
    parser.add_argument("--all", action="store_true", help="show every kind, not only those that differ")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kinds, refused, programs = {}, [], 0
    for row in rows_of(options):
        programs += 1
        if "refused" in row:
            refused.append(f"{row['program']}, {row['size']}: {row['refused']}")
        for op in row.get("ops", ()):
            kinds.setdefault(op["kind"], Kind()).add(row, op)
    verdicts = {name: kind.verdict() for name, kind in sorted(kinds.items())}
    if options.json:
        print(json.dumps({"kinds": {name: {"verdict": verdicts[name], "calls": kind.calls, "most_bytes": kind.most, "differs": kind.differs}
                                    for name, kind in sorted(kinds.items())}, "refused": refused}, indent=1))
    else:
        for name, verdict in verdicts.items():
            if options.all or verdict == "DIFFERS":
                print(f"{name:52} {verdict:18} {kinds[name].calls:5} calls, at most {kinds[name].most:12} B")
            for place, counted, asked in kinds[name].differs[:8 if not options.all else None]:
                print(f"    {place}: counted {counted}, asked for {asked}")
        counts = {verdict: sum(v == verdict for v in verdicts.values()) for verdict in ("by rule", "needs none", "measured or named", "DIFFERS")}
        print(f"{programs} programs ({len(refused)} refused), {len(kinds)} kinds of op: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
        for line in refused if options.all else ():
            print(f"  refused: {line}")
    enough = bool(options.only) or len(kinds) >= LEAST_KINDS
    return 0 if enough and "DIFFERS" not in verdicts.values() else 1


if __name__ == "__main__":
    sys.exit(main())
