"""python -m ebbtide.commands.capture SCRIPT.py:function -o step.json: what `ebbtide capture` starts.

Exit 0, or 2 with one line on standard error that names the file, the place in it and what was expected.
"""

import contextlib
import json
import os
import shutil
import sys
import textwrap
import warnings

from ..arguments import shown_bytes
from ..capture.errors import one_line
from ..errors import CaptureError, HandoverError
from .script import SIZES, Parser, call_script, end, positive, quiet_libraries, widths, write_error_file


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):  # what the script prints is not our data
            steps, parts = _capture(options)
            paths = paths_of(options.output)[:len(steps)]
            for step, path in zip(steps, paths):
                step.save(path)
    except CaptureError as error:
        write_error_file("handover" if isinstance(error.__cause__, HandoverError) else "capture", error)
        print(f"ebbtide: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_report(paths, steps, parts)))
    elif not options.quiet:
        for step, path in zip(steps, paths):
            _say(f"{path}: {step.summary()}, {step.seconds:.1f} s")
            if step.fused:
                _say(f"fused by Inductor: {step.fused['captured_ops']} ops are {step.fused['ops']}, {step.fused['kernels']} of them its kernels; "
                     f"{shown_bytes(step.fused['captured_made_bytes'])} of results are {shown_bytes(step.fused['made_bytes'])}")
    return 0


def _say(text):
    """As wide as the terminal."""
    print(textwrap.fill(text, shutil.get_terminal_size().columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def paths_of(output):
    """Where captures at several batches go: step.json, step.second.json, step.third.json."""
    stem, dot, suffix = output.rpartition(".json")
    return [output, f"{stem}.second{dot}{suffix}", f"{stem}.third{dot}{suffix}"]


def _parser():
    parser = Parser(prog="ebbtide capture", description="Record the training step of a PyTorch program as a graph")
    parser.add_argument("model", metavar="SCRIPT.py:function",
                        help="a function that returns (model, loss_fn, optimizer, batch), or the name of a built-in model")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the graph: .json or .json.gz")
    parser.add_argument("--device", help="whose kernels to record: cpu or cuda (default: where the parameters are)")
    for size in SIZES:
        parser.add_argument("--" + size.replace("_", "-"), type=positive, metavar="N", help="given to the function, if it takes it")
    parser.add_argument("--widths", type=widths, metavar="N,N,...", help="layers of the built-in mlp")
    parser.add_argument("--optimizer", help="of a built-in model, or given to the function")
    parser.add_argument("--any-batch", action="store_true",
                        help="three captures, at batches that together tell the step at any other: FILE, and beside it "
                             "those called .second.json and .third.json")
    parser.add_argument("--kernels", choices=["eager", "inductor"], default="eager", help="inductor: the step as Inductor compiles it")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the warnings of the libraries too")
    parser.add_argument("--seed", type=int, help="of torch's random numbers when the function is called")
    parser.add_argument("--threads", type=positive)
    return parser


def _capture(options):
    try:
        import torch
    except ImportError as error:
        raise CaptureError(f"{sys.executable}: {one_line(error)}; expected PyTorch to be installed") from error
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.seed is not None:
        torch.manual_seed(options.seed)
    if not options.verbose:
        quiet_libraries()
    sizes = {size: getattr(options, size) for size in SIZES if getattr(options, size) is not None}
    script, separator, function = options.model.rpartition(":")
    how = {}
    if separator:
        parts, how = call_script(script, function, sizes, {"optimizer": options.optimizer} if options.optimizer else {})
        name = f"{os.path.basename(script)}:{function}"
    elif options.model.endswith(".py"):
        raise CaptureError(f"{options.model}: expected {options.model}:FUNCTION")
    elif is_config(options.model):
        from .. import config_models

        parts = config_models.build(options.model, **sizes, optimizer=options.optimizer or "sgd")
        name = os.path.basename(os.path.normpath(options.model))
    else:
        from .. import torch_models

        parts = torch_models.build(options.model, **sizes, widths=options.widths or (), optimizer=options.optimizer or "sgd")
        name = options.model
    from ..capture.batches import capture_batches
    from ..capture.step import CaptureOptions, capture_step

    how = CaptureOptions(**{"device": options.device} | how)
    steps = capture_batches(*parts, options=how) if options.any_batch else [capture_step(*parts, how)]
    for step in steps:
        step.graph["name"] = name
    if options.kernels == "inductor":
        steps = [_fused(step) for step in steps]
    return steps, parts


def _fused(step):
    from ..inductor import check_kernels
    from ..inductor.fuse import NotFused, fuse_whole

    try:
        check_kernels("inductor")
        return fuse_whole(step, step.graph["meta"]["device"])
    except (NotFused, ValueError) as error:
        raise CaptureError(f"--kernels inductor: {error}") from error


def is_config(path):
    """Whether MODEL is a Hugging Face folder or its config.json."""
    return os.path.isfile(os.path.join(path, "config.json")) if os.path.isdir(path) else path.endswith(".json")


def _report(paths, steps, parts):
    step = steps[0]
    return {
        "schema_version": 1,
        "command": "capture",
        "path": paths[0],
        "paths": paths,
        "name": step.graph["name"],
        "ops": len(step.graph["ops"]),
        "storages": len(step.graph["storages"]),
        "parameters": sum(p.numel() for p in parts[0].parameters() if p.requires_grad),
        "seconds": sum(each.seconds for each in steps),
    } | ({"fused": step.fused} if step.fused else {})


if __name__ == "__main__":
    end(main())
