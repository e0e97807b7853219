"""python -m ebbtide.capture_command SCRIPT.py:function -o step.json: what `ebbtide capture` starts.

Exit 0, or 2 with one line on standard error that names the file, the place in it and what was expected.
"""

import argparse
import contextlib
import importlib.util
import inspect
import json
import os
import sys
import warnings

from .capture_errors import CaptureError, one_line, user_line

_EXPECTED = "expected (model, loss_fn, optimizer, batch)"
_SIZES = ("batch_size", "image_size", "seq_len", "classes")


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):  # what the script prints is not our data
            steps, parts = _capture(options)
            paths = paths_of(options.output)[:len(steps)]
            for step, path in zip(steps, paths):
                step.save(path)
    except CaptureError as error:
        print(f"ebbtide: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_report(paths, steps, parts)))
    elif not options.quiet:
        for step, path in zip(steps, paths):
            print(f"{path}: {step.summary()}, {step.seconds:.1f} s")
    return 0


def paths_of(output):
    """Where captures at several batches go: step.json, step.second.json, step.third.json."""
    stem, dot, suffix = output.rpartition(".json")
    return [output, f"{stem}.second{dot}{suffix}", f"{stem}.third{dot}{suffix}"]


def _parser():
    parser = _Parser(prog="ebbtide capture", description="Record the training step of a PyTorch program as a graph")
    parser.add_argument("model", metavar="SCRIPT.py:function",
                        help="a function that returns (model, loss_fn, optimizer, batch), or the name of a built-in model")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the graph: .json or .json.gz")
    parser.add_argument("--device", help="whose kernels to record: cpu or cuda (default: where the parameters are)")
    for size in _SIZES:
        parser.add_argument("--" + size.replace("_", "-"), type=_positive, metavar="N", help="given to the function, if it takes it")
    parser.add_argument("--widths", type=_widths, metavar="N,N,...", help="layers of the built-in mlp")
    parser.add_argument("--optimizer", help="of a built-in model, or given to the function")
    parser.add_argument("--any-batch", action="store_true",
                        help="three captures, at batches that together tell the step at any other: FILE, and beside it "
                             "those called .second.json and .third.json")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the warnings of the libraries too")
    parser.add_argument("--seed", type=int, help="of torch's random numbers when the function is called")
    parser.add_argument("--threads", type=_positive)
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
        _quiet_libraries()
    sizes = {size: getattr(options, size) for size in _SIZES if getattr(options, size) is not None}
    script, separator, function = options.model.rpartition(":")
    how = {}
    if separator:
        parts, how = _call(script, function, sizes, {"optimizer": options.optimizer} if options.optimizer else {})
        name = f"{os.path.basename(script)}:{function}"
    elif options.model.endswith(".py"):
        raise CaptureError(f"{options.model}: expected {options.model}:FUNCTION")
    else:
        from . import twins

        parts = twins.build(options.model, **sizes, widths=options.widths or (), optimizer=options.optimizer or "sgd")
        name = options.model
    from .capture_batches import capture_batches
    from .capture_step import capture_step

    how = {"device": options.device} | how
    steps = capture_batches(*parts, **how) if options.any_batch else [capture_step(*parts, **how)]
    for step in steps:
        step.graph["name"] = name
    return steps, parts


def _call(script, function, sizes, choices):
    """What SCRIPT.py:function returns, and how it wants to be captured."""
    if not os.path.isfile(script):
        raise CaptureError(f"{script}: no such file; expected SCRIPT.py:function")
    module = _load(script)
    target = getattr(module, function, None)
    if not callable(target):
        there = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        raise CaptureError(f"{script}: no function {function!r}" + (f"; it has {', '.join(there)}" if there else ""))
    try:
        accepted = inspect.signature(target).parameters
    except (TypeError, ValueError):
        accepted = {}
    given, batch_size = sizes | choices, None
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        if "batch_size" not in accepted:  # then its example is cut or continued
            batch_size = given.pop("batch_size", None)
        refused = [name for name in given if name not in accepted]
        if refused:
            raise CaptureError(f"{script}:{function} takes no {refused[0]}; expected a parameter of that name")
    try:
        parts = target(**given)
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{user_line(error, script)}: {one_line(error)}") from error
    if not isinstance(parts, (tuple, list)) or len(parts) != 4:
        what = f"{len(parts)} values" if isinstance(parts, (tuple, list)) else f"one {type(parts).__name__}"
        raise CaptureError(f"{script}:{function} returns {what}; {_EXPECTED}")
    how = getattr(parts, "how", {})  # of ebbtide.estimate
    if batch_size is not None:
        from .capture_batches import resized

        parts = (*parts[:3], resized(parts[3], batch_size))
    return tuple(parts), how


def _load(script):
    name = os.path.splitext(os.path.basename(script))[0]
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None:
        raise CaptureError(f"{script}: not a Python file; expected SCRIPT.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise CaptureError(f"{script}:{error.lineno}: {one_line(error)}") from error
    except SystemExit as error:
        raise CaptureError(f"{script}: exits when it is loaded; expected `if __name__ == '__main__'` around its program") from error
    except Exception as error:
        raise CaptureError(f"{user_line(error, script)}: {one_line(error)}") from error
    return module


def _report(paths, steps, parts):
    step = steps[0]
    return {
        "schema_version": 1,
        "path": paths[0],
        "paths": paths,
        "name": step.graph["name"],
        "ops": len(step.graph["ops"]),
        "storages": len(step.graph["storages"]),
        "parameters": sum(p.numel() for p in parts[0].parameters() if p.requires_grad),
        "seconds": sum(each.seconds for each in steps),
    }


def _quiet_libraries():
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1 up")
    return number


def _widths(text):
    return [_positive(part) for part in text.split(",")]


class _Parser(argparse.ArgumentParser):
    """One line per mistake."""

    def error(self, message):
        print(f"ebbtide: capture: {message}", file=sys.stderr)
        sys.exit(2)


def _end(code):
    """At once. Autograd's thread lets go of Python objects after backward has returned; where it meets an interpreter that
    is being taken apart, PyTorch aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
