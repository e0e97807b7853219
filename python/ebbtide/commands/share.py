"""python -m ebbtide.commands.share --capacity BYTES SCRIPT.py:function ...: what `ebbtide share --script` starts.

Trains what the functions return, together, in one pool. Exit 0; 3 where they do not fit; 2 with one line on standard error.
"""

import contextlib
import json
import os
import sys
import warnings

from .. import progress
from ..capture.errors import one_line
from ..errors import CaptureError
from ..files import write_text
from .script import SIZES, Parser, call_script, end, positive, quiet_libraries

DOES_NOT_FIT = 3


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            return _share(options)
    except KeyboardInterrupt:
        print("ebbtide: interrupted; every job has taken whole steps", file=sys.stderr)
        return 130
    except (CaptureError, ValueError) as error:
        print(f"ebbtide: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2


def _parser():
    parser = Parser(prog="ebbtide share")
    parser.add_argument("scripts", nargs="+")
    parser.add_argument("--capacity", required=True)
    parser.add_argument("--steps", type=positive, default=5)
    parser.add_argument("--groups", type=positive, default=16)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--budget")
    parser.add_argument("--weights")
    parser.add_argument("--priorities")
    for size in SIZES:
        parser.add_argument("--" + size.replace("_", "-"), type=positive)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o", "--output", action="append", default=[])
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive)
    return parser


def _share(options):
    try:
        import torch
    except ImportError as error:
        raise CaptureError(f"{sys.executable}: {one_line(error)}; expected PyTorch to be installed") from error
    from torch.utils._pytree import tree_map_only

    from ..arguments import device_of
    from ..errors import BudgetError, SharedError
    from ..shared.shared import Shared
    from ..step.step import Step, StepOptions

    if options.threads:
        torch.set_num_threads(options.threads)
    if not options.verbose:
        quiet_libraries()
    device = device_of(options.device)
    sizes = {size: getattr(options, size) for size in SIZES if getattr(options, size) is not None}
    weights, priorities = _numbers(options, "weights", 1), _numbers(options, "priorities", 0)
    errors = []
    with Shared(options.capacity, options.groups) as gpu:
        for name, weight, priority in zip(options.scripts, weights, priorities):
            script, _, function = name.rpartition(":")
            if not script:
                raise CaptureError(f"{name}: expected SCRIPT.py:function")
            torch.manual_seed(options.seed)  # each as if it were alone
            with contextlib.redirect_stdout(sys.stderr):  # what the script prints is not our data
                (model, loss_fn, optimizer, batch), _ = call_script(script, function, sizes, {})
            model, batch = model.to(device), tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)
            step = Step(model, loss_fn, optimizer, batch,
                        StepOptions(budget=options.budget, device=device, progress=progress.reporter(options.quiet)))
            torch.manual_seed(options.seed)
            names = {job.name for job in gpu.jobs}
            shown = f"{os.path.basename(script)}:{function}"
            unique = next(n for n in (shown, *(f"{shown} {i}" for i in range(2, len(options.scripts) + 1))) if n not in names)
            gpu.add(step, name=unique, weight=weight, priority=priority)
        jobs = list(gpu.jobs)
        try:
            gpu.run(iterations=options.steps)
        except BudgetError as error:
            if options.json:
                print(json.dumps({"schema_version": 1, "command": "share", "fits": False, "minimum_capacity_bytes": error.minimum_budget_bytes,
                                  "message": str(error)}))
            else:
                print(error)
            return DOES_NOT_FIT
        except SharedError as error:
            errors = error.jobs
        report = gpu.report()
    fields = {"schema_version": 1, "command": "share", "fits": True} | report.to_dict()
    fields["time_ns"] = round(fields["seconds"] * 1e9 / options.steps)
    fields["exclusive_time_ns"] = sum(next(iter(job.step._plans.values())).planned.said["time_ns"] for job in jobs)
    fields["jobs"] = [each | {"model": each.pop("name"), "losses": job.losses} for each, job in zip(fields["jobs"], (j for j in jobs if j not in errors))]
    for job in errors:
        fields["jobs"].append({"model": job.name, "iterations": job.iterations, "losses": job.losses, "error": one_line(job.error)})
        print(f"ebbtide: {job.name}: {one_line(job.error)}; the others have gone on", file=sys.stderr)
    text = repr(report) + "".join(f"{job.name}: loss {job.losses[0]:.6g} to {job.losses[-1]:.6g}\n" for job in jobs if job.losses)
    if options.json:
        print(json.dumps(fields))
    elif not options.quiet:
        print(text, end="")
    for path in options.output:
        if not path.endswith((".json", ".txt")):
            raise ValueError(f"-o {path}: expected a name that ends in .json or .txt")
        write_text(path, json.dumps(fields, indent=2) + "\n" if path.endswith(".json") else text)
    return 2 if errors else 0


def _numbers(options, name, otherwise):
    text = getattr(options, name)
    if text is None:
        return [otherwise] * len(options.scripts)
    numbers = text.split(",")
    if len(numbers) != len(options.scripts) or not all(number.lstrip("-").isdigit() for number in numbers):
        raise ValueError(f"--{name} {text}: expected {len(options.scripts)} numbers, one for each job")
    return [int(number) for number in numbers]


if __name__ == "__main__":
    end(main())
