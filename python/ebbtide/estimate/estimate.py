"""ebbtide.estimate: a model and its inputs in, what training it takes on a GPU out."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from .. import native
from ..__main__ import find_program
from ..capture.batches import batch_size_of, capture_batches
from ..capture.errors import one_line
from ..capture.step import CaptureOptions, capture_step
from ..commands.capture import paths_of
from ..errors import CaptureError, HandoverError
from ..files import read_json, write_bytes
from ..notebook import render
from ..progress import report as report_progress
from ..torch_models import OPTIMIZERS
from .pickled_model import IN_CHILD, Loss, Parts, build_optimizer, write_job

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclasses.dataclass(frozen=True)
class EstimateOptions:
    """What is estimated; the same names as in ebbtide.estimate, which says what each means."""

    optimizer: str | torch.optim.Optimizer = "sgd"
    gpu: str | os.PathLike[str] = "a100-40gb"
    loss_fn: Callable[..., torch.Tensor] | None = None
    target: Any = None
    inference: bool = False
    autocast: str | torch.dtype | None = None
    framework: str | None = None
    zero_grad: str | None = None
    iterations: int | None = None
    alloc_conf: str | None = None


class Estimate:
    """What a training will take. Has the fields of `ebbtide estimate --json` as attributes; `print` it for the table."""

    def __init__(self, result: native.EstimateResult, notes: Sequence[str] = ()) -> None:
        self._result = result
        self._fields, self._table = result.to_dict(), result.text()
        self.add_notes(notes)

    def add_notes(self, notes: Sequence[str]) -> None:
        """What the figures do not cover, beside what they say themselves."""
        self._fields["notes"] = [*notes, *self._fields["notes"]]
        self._table += "".join(f"note: {note}\n" for note in notes)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._fields:
            return self._fields[name]
        raise AttributeError(f"an Estimate has no {name}; it has {', '.join(self.__dict__.get('_fields', ()))}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        return render(self._fields, self._table)

    def to_dict(self) -> dict[str, Any]:
        """The object that `ebbtide estimate --json` prints."""
        return json.loads(json.dumps(self._fields))

    def save(self, path: str | os.PathLike[str]) -> None:
        """By its name: .html the page, .json the fields, .txt the table, .pickle a memory snapshot as torch's."""
        path = os.path.abspath(os.fspath(path))
        faces: dict[str, Callable[[], str | bytes]] = {
            ".html": self._result.page, ".json": lambda: json.dumps(self._fields, indent=2) + "\n",
            ".txt": lambda: self._table, ".pickle": self._result.snapshot}
        face = faces.get(os.path.splitext(path)[1])
        if face is None:
            *others, last = faces
            raise ValueError(f"{path}: expected a name that ends in {', '.join(others)} or {last}")
        made = face()
        write_bytes(path, made.encode() if isinstance(made, str) else made)


def estimate(model: torch.nn.Module, example_inputs: Any, options: EstimateOptions) -> Estimate:
    """See ebbtide.estimate."""
    autocast, optimizer, target = options.autocast, options.optimizer, options.target
    if autocast not in (None, *_AUTOCAST, *_AUTOCAST.values()):
        raise ValueError(f"autocast {autocast!r}: expected {' or '.join(map(repr, _AUTOCAST))}, or torch's type of that name")
    how = {"inference": options.inference, "autocast": _AUTOCAST[autocast] if isinstance(autocast, str) else autocast}
    if isinstance(example_inputs, (torch.Tensor, list)):
        example_inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    if isinstance(optimizer, str) and optimizer not in (*OPTIMIZERS, "none"):
        near = difflib.get_close_matches(optimizer, OPTIMIZERS, 1)
        raise ValueError(f"optimizer {optimizer!r}: expected one of {', '.join([*OPTIMIZERS, 'none'])}, or one of torch's objects"
                         + (f"; did you mean {near[0]}?" if near else ""))
    if options.inference:
        batch, optimizer = example_inputs, "none"
    elif isinstance(example_inputs, tuple):
        batch = (*example_inputs, target)  # capture's way to call: all but the last are the model's
    elif target is not None:
        raise ValueError("target: of no use with a dict of inputs; expected the labels within the dict")
    else:
        batch = example_inputs
    if os.environ.get(IN_CHILD):
        raise CaptureError("ebbtide.estimate is called while the script is imported; expected `if __name__ == '__main__'` around its program")

    return estimate_parts(Parts((model, Loss(options.loss_fn), optimizer, batch), how), options)


def estimate_parts(parts: Parts, options: EstimateOptions) -> Estimate:
    """Of a whole step; of `options`, what `parts` does not say."""
    capture = Capture(parts)
    [graph] = capture(any_batch=False)
    asked = {"gpu": os.fspath(options.gpu)} | {
        name: getattr(options, name) for name in ("framework", "zero_grad", "iterations", "alloc_conf")}
    result, notes = native.estimate(graph, **asked), capture.notes
    if not result.fits:  # other batches, to tell the largest that does
        try:
            first, *others = capture(any_batch=True)
            result = native.estimate(first, others=others, options={"batch_size": batch_size_of(parts[3])}, **asked)
        except (CaptureError, _NoPhantom, ValueError) as error:  # such a step has no other batches
            notes.append(f"the largest batch that fits is not known: {one_line(error)}")
    return Estimate(result, notes)


class Capture:
    """Captures a step with CUDA's kernels: in place where PyTorch sees a GPU, else on the phantom; with the CPU's where neither can be, which
    `notes` then says."""

    def __init__(self, parts: Parts) -> None:
        self.notes: list[str] = []
        self._parts, self._on_cpu = parts, False

    def __call__(self, any_batch: bool) -> list[native.Graph]:
        """One graph; with `any_batch` those of three batches, which tell all others."""
        report_progress(f"capturing {type(self._parts[0]).__name__}")
        try:
            if not self._on_cpu:
                try:
                    return (_capture_here if torch.cuda.is_available() else _capture_on_phantom)(self._parts, "cuda", any_batch)
                except (HandoverError, _NoPhantom) as error:
                    self.notes.append(f"captured with the kernels of the CPU: {error}")
                    self._on_cpu = True
            return _capture_here(self._parts, "cpu", any_batch)
        finally:
            report_progress("")


class _NoPhantom(Exception):
    """There is no phantom GPU here to capture on."""


def _capture_here(parts: Parts, device: str, any_batch: bool) -> list[native.Graph]:
    model, loss, optimizer, batch = parts
    built = (model, loss, build_optimizer(optimizer, model), batch)
    how = CaptureOptions(**{"device": device} | parts.how)
    steps = capture_batches(*built, options=how) if any_batch else [capture_step(*built, how)]
    return [_graph_of(step.graph, model) for step in steps]


def _capture_on_phantom(parts: Parts, device: str, any_batch: bool) -> list[native.Graph]:
    """In a process of its own, which gets the model without its numbers."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        job, output, errors = (os.path.join(folder, name) for name in ("job.pickle", "step.json", "error.json"))
        try:
            write_job(parts, job)
        except Exception as error:  # whatever a user's object raises when it is pickled
            raise HandoverError(f"the model cannot be handed to a process of its own ({one_line(error)})") from error
        program = find_program()
        if program is None:
            raise RuntimeError("the program `ebbtide` is not beside the package; install the package again")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pickled_model.py")
        words = ["capture", f"{script}:job", "--device", device, "-q", "-o", output, *(["--any-batch"] if any_batch else [])]
        environment = {"EBBTIDE_PYTHON": sys.executable} | dict(os.environ) | {"EBBTIDE_ERROR_FILE": errors, IN_CHILD: job}
        done = subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            _raise_child_error(read_json(errors), done)
        graphs = []
        for path in paths_of(output)[:3 if any_batch else 1]:
            with open(path, encoding="utf-8") as file:
                graphs.append(_graph_of(json.load(file), parts[0]))
        return graphs


def _raise_child_error(told: dict[str, str] | None, done: subprocess.CompletedProcess[str]) -> NoReturn:
    """`told`: what the process that captures has said of its error; None where it could not."""
    if told is None:
        last = (done.stderr.splitlines() or [f"it ended with code {done.returncode}"])[-1]
        raise CaptureError(f"the process that captures has died: {last}")
    raise {"unavailable": _NoPhantom, "handover": HandoverError}.get(told["kind"], CaptureError)(told["message"])


def _graph_of(graph: dict[str, Any], model: torch.nn.Module) -> native.Graph:
    return native.Graph(json.dumps(graph | {"name": type(model).__name__}), type(model).__name__)
