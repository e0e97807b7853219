"""ebbtide.estimate: a model and its inputs in, what training it takes on a GPU out. The program `ebbtide` does the sums."""

import difflib
import html
import json
import os
import subprocess
import sys
import tempfile

import torch

from .__main__ import find_program
from .capture_batches import capture_batches
from .capture_errors import CaptureError, one_line
from .estimation_job import IN_CHILD, Loss, Parts, build_optimizer, write_job
from .twins import OPTIMIZERS

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
_FILES = (".html", ".json", ".txt", ".pickle")


class Estimate:
    """What a training will take. Has the fields of `ebbtide estimate --json` as attributes; `print` it for the table."""

    def __init__(self, folder, words, notes):
        self._folder, self._words, self._own_notes = folder, words, notes  # the folder goes with the object
        self._fields = json.loads(_program([*words, "--json", "-o", "table.txt"], folder.name))
        self._fields["model"] = self._fields["name"]
        self._fields["notes"] = notes + self._fields["notes"]
        with open(os.path.join(folder.name, "table.txt"), encoding="utf-8") as file:
            self._table = file.read() + "".join(f"note: {note}\n" for note in notes)

    def __getattr__(self, name):
        if not name.startswith("_") and name in self._fields:
            return self._fields[name]
        raise AttributeError(f"an Estimate has no {name}; it has {', '.join(self.__dict__.get('_fields', ()))}")

    def __dir__(self):
        return [*super().__dir__(), *self._fields]

    def __repr__(self):
        return self._table

    def _repr_html_(self):
        return f"<pre>{html.escape(self._table)}</pre>"

    def to_dict(self):
        """The object that `ebbtide estimate --json` prints."""
        return json.loads(json.dumps(self._fields))

    def save(self, path):
        """By its name: .html the page, .json the fields, .txt the table, .pickle a memory snapshot as torch's."""
        path = os.path.abspath(os.fspath(path))
        if not path.endswith(_FILES):
            raise ValueError(f"{path}: expected a name that ends in {', '.join(_FILES[:-1])} or {_FILES[-1]}")
        if path.endswith((".json", ".txt")):
            text = json.dumps(self._fields, indent=2) + "\n" if path.endswith(".json") else self._table
            with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False, encoding="utf-8") as file:
                file.write(text)
            os.replace(file.name, path)
        else:
            _program([*self._words, "-q", "-o", path], self._folder.name)


def estimate(model, example_inputs, optimizer, gpu, loss_fn, target, inference, autocast, options):
    """See ebbtide.estimate."""
    if autocast not in (None, *_AUTOCAST, *_AUTOCAST.values()):
        raise ValueError(f"autocast {autocast!r}: expected {' or '.join(map(repr, _AUTOCAST))}, or torch's type of that name")
    how = {"inference": inference, "autocast": _AUTOCAST.get(autocast, autocast)}
    if isinstance(example_inputs, (torch.Tensor, list)):
        example_inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    if isinstance(optimizer, str) and optimizer not in (*OPTIMIZERS, "none"):
        near = difflib.get_close_matches(optimizer, OPTIMIZERS, 1)
        raise ValueError(f"optimizer {optimizer!r}: expected one of {', '.join([*OPTIMIZERS, 'none'])}, or one of torch's objects"
                         + (f"; did you mean {near[0]}?" if near else ""))
    if inference:
        batch, optimizer = example_inputs, "none"
    elif isinstance(example_inputs, tuple):
        batch = (*example_inputs, target)  # capture's way to call: all but the last are the model's
    elif target is not None:
        raise ValueError("target: of no use with a dict of inputs; expected the labels within the dict")
    else:
        batch = example_inputs
    if os.environ.get(IN_CHILD):
        raise CaptureError("ebbtide.estimate is called while the script is imported; expected `if __name__ == '__main__'` around its program")

    parts = Parts((model, Loss(loss_fn), optimizer, batch), how)
    folder = tempfile.TemporaryDirectory(prefix="ebbtide-")
    graph = os.path.join(folder.name, f"{type(model).__name__}.json")
    notes = []
    capture = _capture_here if torch.cuda.is_available() else _capture_in_child
    try:
        capture(parts, graph, folder.name, "cuda", any_batch=False)
    except (CaptureError, NoChild) as error:
        if not isinstance(error, NoChild):
            raise
        notes.append(f"captured with the kernels of the CPU: {error}")
        capture = _capture_here
        capture(parts, graph, folder.name, "cpu", any_batch=False)

    words = ["estimate", os.path.basename(graph), "--gpu", gpu]
    for flag, value in options.items():
        if value is not None:
            words += [f"--{flag.replace('_', '-')}", str(value)]
    result = Estimate(folder, words, notes)
    if not result.fits:  # other batches, to tell the largest that does
        try:
            capture(parts, graph, folder.name, "cpu" if notes else "cuda", any_batch=True)
            stem = os.path.basename(graph).removesuffix(".json")
            others = [f"--other-batch={stem}.{which}.json" for which in ("second", "third")]
            result = Estimate(folder, [*words, *others], notes)
        except (CaptureError, NoChild, ValueError):  # such a step has no other batches
            pass
    return result


class NoChild(Exception):
    """A capture with CUDA's kernels cannot be had here."""


def _capture_here(parts, path, folder, device, any_batch):
    model, loss, optimizer, batch = parts
    from .capture_command import paths_of
    from .capture_step import capture_step

    built = (model, loss, build_optimizer(optimizer, model), batch)
    how = {"device": device} | parts.how
    steps = capture_batches(*built, **how) if any_batch else [capture_step(*built, **how)]
    for step, name in zip(steps, paths_of(path)):
        step.save(name)


def _capture_in_child(parts, path, folder, device, any_batch):
    """On the phantom GPU. The child gets the model without its numbers."""
    job = os.path.join(folder, "job.pickle")
    try:
        write_job(parts, job)
    except Exception as error:  # whatever a user's object raises when it is pickled
        raise NoChild(f"the model cannot be handed to a process of its own ({one_line(error)})") from error
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "estimation_job.py")
    words = ["capture", f"{script}:job", "--device", device, "-q", "-o", path, *(["--any-batch"] if any_batch else [])]
    done = _run(words, folder, {IN_CHILD: job})
    if done.returncode != 0:
        message = _message(done)
        if "no phantom GPU" in message or "cannot be unpickled" in message or "__main__" in message:
            raise NoChild(message)
        raise CaptureError(message)
    for name in [path, *(path.replace(".json", f".{which}.json") for which in ("second", "third") if any_batch)]:
        with open(name, encoding="utf-8") as file:
            graph = json.load(file)
        graph["name"] = type(parts[0]).__name__
        with open(name, "w", encoding="utf-8") as file:
            json.dump(graph, file)


def _program(words, folder):
    """Standard output of the program; ValueError with its line where it refuses."""
    done = _run(words, folder, {})
    if done.returncode not in (0, 1):
        raise ValueError(_message(done))
    return done.stdout


def _run(words, folder, environment):
    program = find_program()
    if program is None:
        raise RuntimeError("the program `ebbtide` is not beside the package; install the package again")
    environment = {"EBBTIDE_PYTHON": sys.executable, "NO_COLOR": "1"} | dict(os.environ) | environment
    return subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)


def _message(done):
    lines = [line for line in done.stderr.splitlines() if line.startswith("ebbtide")] or done.stderr.splitlines()[-1:]
    return lines[-1].partition(": ")[2] if lines else f"the program ended with code {done.returncode}"
