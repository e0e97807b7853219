"""torch.compile(model, backend="ebbtide", options={"budget": "4GiB"}): forward and backward within a budget of memory, in
loops as users write them. See docs/run.md."""

from __future__ import annotations

import dataclasses
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import interrupts, progress
from ..arguments import ASSUMED_LINKS
from ..capture.errors import pointing_to
from ..errors import BudgetError, CaptureError
from ..step.batch import OF_VIEWS
from ..step.plan import ALIGNMENTS, PlanOptions, make_plan
from ..step.profile import profile, sized
from .capture import Form, autocast_now, autocast_of, capture_joint, device_of_all
from .job import MOST_PLANS, Job

_jobs: weakref.WeakValueDictionary[int, Job] = weakref.WeakValueDictionary()  # id of the options' object -> Job. Each call of torch.compile has its own.


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], options: dict[str, Any] | None = None,
            mode: str | None = None, **_: Any) -> Callable[..., Any]:
    """What torch.compile calls with each graph that it makes of the user's code."""
    if mode is not None:
        raise ValueError(f"mode {mode!r}: expected none with backend 'ebbtide'; it takes options")
    job = _jobs.get(id(options))
    if job is None or job.options is not options:
        job = _jobs[id(options)] = Job(options)
    return torch._dynamo.disable(Piece(job, module))


def reports(options: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """What the last iteration of each compiled graph took, as dicts; see docs/run.md. `options`: of those alone that were compiled with this
    very object."""
    return [piece.report() for job in _jobs.values() for piece in job.pieces
            if piece.last is not None and (options is None or job.options is options)]


class Piece:
    """A graph of torch.compile's, called in its place."""

    def __init__(self, job, module):
        self.job, self.module = job, module
        self.name = f"graph {len(job.pieces)}"
        self.broken = _why_broken(module)
        self.last = None  # (Prepared, what the engine said)
        self._prepared = OrderedDict()  # (form of the call, pattern) -> Prepared
        self._patterns = {}  # form of the call -> the pattern that backward had last
        job.pieces.append(self)

    @interrupts.deferring
    def __call__(self, *args):
        _check_views(args)
        key = _key(args)
        prepared = self.prepare(key, args, self._patterns.get(key))
        self.job.allow(prepared)
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if prepared.joint.pattern is None:
            with torch.no_grad():
                made = _infer(prepared, tensors)
        else:
            made = _Run.apply(prepared, key, *tensors)
        made = iter(made)
        return [next(made) if isinstance(out, Form) else args[out] if isinstance(out, int) else out[0] for out in prepared.joint.outputs]

    def learn(self, key, pattern):
        self._patterns[key] = pattern

    def prepare(self, key, args, pattern):
        prepared = self._prepared.get((key, pattern))
        if prepared is None:
            prepared = Prepared(self, args, pattern)
            self._prepared[key, pattern] = prepared
            if pattern is None and prepared.joint.pattern is not None:
                self._prepared[key, prepared.joint.pattern] = prepared
            while len(self._prepared) > 2 * MOST_PLANS:
                self._prepared.popitem(last=False)
        return prepared

    def report(self):
        prepared, last = self.last
        said = prepared.planned.said
        out = {"name": self.name, "budget_bytes": said["budget_bytes"], "plain_peak_bytes": said["plain_peak_bytes"],
               "policy": said["policy"], "plain_time_ns": said["plain_time_ns"], "trains": prepared.joint.pattern is not None,
               "predicted": {name: said[name] for name in ("time_ns", "peak_bytes", "copied_out_bytes", "copied_in_bytes") if name in said}}
        return out | {k: v for k, v in last.items() if k != "step_time_ns"}


class Prepared:
    """A graph for one form of call, with its plan."""

    def __init__(self, piece, args, pattern):
        job, self.piece, self.slots = piece.job, piece, []
        progress.report(f"capturing {piece.name}")
        with pointing_to("ebbtide.step, for a whole step,", "`with ebbtide.budget(...)`, for any eager code,"):
            self.joint = capture_joint(piece.module, args, piece.name, pattern)
        if job.kernels == "inductor":
            from ..inductor.fuse import fuse_joint  # Inductor takes a second to import

            progress.report(f"compiling {piece.name} by Inductor")
            fuse_joint(self.joint)
        device = self.joint.device
        self.measured = profile(self.joint.graph, progress.counting(progress.report, "measuring ops"), device=device) if job.measure else None
        progress.report("planning")
        graph = self.measured.graph if self.measured else sized(self.joint.graph, device)
        trains = self.joint.pattern is not None
        asked = PlanOptions(budget=job.share(trains, device), policy=job.policy, reorder=job.reorder,
                            link=job.link or ASSUMED_LINKS[device[:4]], alignment=ALIGNMENTS[device[:4]])
        self.unplanned = None  # why it has no plan, of a part of a model whose other parts may be what takes memory
        self.called = self.allowed = False
        try:
            self.planned = make_plan(graph, asked)
        except BudgetError as error:
            if not (trains and job.is_share and job.is_split(piece)):
                raise
            self.planned, self.unplanned = make_plan(graph, dataclasses.replace(asked, budget="100%")), error
        if trains and self.unplanned is None:
            job.largest = max(job.largest, self.planned.said["budget_bytes"])
        self.inputs = [s for s in self.joint.inputs if s is not None]  # by tensor among the arguments
        places = [place for place, s in enumerate(self.joint.inputs) if s is not None]
        self.gradients = [self.joint.gradients[place] for place in places]
        self.mutated = [places.index(place) for place in self.joint.mutated]
        self.outputs = [form for form in self.joint.outputs if isinstance(form, Form)]
        progress.report("")

    def places(self, tensors):
        """Where the user's tensors are, for the engine."""
        return [(s, t.data_ptr()) for s, t in zip(self.inputs, tensors)] + [(s, t.data_ptr()) for s, t in self.joint.constants]

    def check(self, tensors):
        """What the graph changes must be no part of what else it is given: it was captured as if it were not."""
        for place in self.mutated:
            mine = _reach(tensors[place])
            for other, tensor in enumerate(tensors):
                low, high = _reach(tensor)
                if other != place and low < mine[1] and mine[0] < high:
                    raise CaptureError("the model changes a tensor that shares memory with another of its inputs; expected them apart")


class Lease:
    """An engine between forward and backward. In force until it has ended, or until nobody refers to it."""

    def __init__(self, prepared):
        self.piece, self.in_force = prepared.piece, True
        self.engine = prepared.piece.job.take(prepared, self).engine(prepared)

    def end(self):
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.abandon()
        self.in_force = False


def _forward(prepared, lease, tensors):
    outputs = [form.make() for form in prepared.outputs]
    handed = [(form.storage, t.data_ptr()) for form, t in zip(prepared.outputs, outputs)]
    with _out_of_memory():
        lease.engine.forward(prepared.places(tensors) + handed)
    return outputs


def _infer(prepared, tensors):
    prepared.check(tensors)
    before, random = [tensors[place].clone() for place in prepared.mutated], _random(prepared.joint.device)
    lease = Lease(prepared)
    try:
        outputs = _forward(prepared, lease, tensors)
        prepared.piece.last = prepared, lease.engine.backward(prepared.places(tensors))
    except BaseException:
        _put_back(prepared, tensors, before)
        _set_random(random, prepared.joint.device)
        raise
    finally:
        lease.end()
    _changed(prepared, tensors)
    return outputs


class _Run(torch.autograd.Function):
    """Forward in one half of a step, backward in the other."""

    @staticmethod
    def forward(ctx, prepared, key, *tensors):
        prepared.check(tensors)
        ctx.prepared, ctx.key = prepared, key
        ctx.autocast = autocast_now(prepared.joint.device)
        ctx.random = _random(prepared.joint.device)
        ctx.before = [tensors[place].clone() for place in prepared.mutated]
        lease = Lease(prepared)
        try:
            outputs = _forward(prepared, lease, tensors)
        except BaseException:
            lease.end()
            _put_back(prepared, tensors, ctx.before)
            _set_random(ctx.random, prepared.joint.device)
            raise
        ctx.lease = lease
        _changed(prepared, tensors)
        ctx.changed = [(tensor, tensor._version, tensor.clone()) for tensor in (tensors[place] for place in prepared.mutated)]
        ctx.save_for_backward(*(t for place, t in enumerate(tensors) if place not in prepared.mutated))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(t for form, t in zip(prepared.outputs, outputs) if not form.requires_grad))
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    @interrupts.deferring
    def backward(ctx, *given):
        prepared = ctx.prepared
        # What forward changed is as forward left it, whatever has been done to it since. Autograd checks the rest, and refuses.
        saved, changed = iter(ctx.saved_tensors), (tensor if tensor._version == version else left for tensor, version, left in ctx.changed or ())
        if ctx.lease is None:
            raise RuntimeError("backward a second time through a graph of backend 'ebbtide': what it needs was let go; retain_graph is not supported")
        tensors = [next(changed) if place in prepared.mutated else next(saved) for place in range(len(prepared.inputs))]
        lease, ctx.lease = ctx.lease, None
        given = [None if g is None else g.resolve_conj().resolve_neg() for g, form in zip(given, prepared.outputs) if form.requires_grad]
        pattern = autocast_now(prepared.joint.device), tuple(None if g is None else g.stride() for g in given)
        try:
            if pattern != prepared.joint.pattern:
                lease.end()
                prepared, lease = _again(ctx, tensors, pattern)
            gradients = [None if form is None else form.make() for form in prepared.gradients]
            places = prepared.places(tensors)
            places += [(s, g.data_ptr()) for s, g in zip(prepared.joint.tangents, (g for g in given if g is not None))]
            places += [(form.storage, g.data_ptr()) for form, g in zip(prepared.gradients, gradients) if form is not None]
            with _out_of_memory():
                prepared.piece.last = prepared, lease.engine.backward(places)
        finally:
            lease.end()
        ctx.before = ctx.changed = None
        return None, None, *gradients


def _again(ctx, tensors, pattern):
    """Backward is called with other gradients than the graph was captured for (of fewer outputs, of other strides). It is
    captured for these, and forward is run again, from the random state and the buffers that it began with."""
    piece = ctx.prepared.piece
    piece.learn(ctx.key, pattern)
    args = piece_arguments(ctx.key, tensors)
    device = ctx.prepared.joint.device
    with torch.enable_grad(), autocast_of(ctx.autocast, device):
        prepared = piece.prepare(ctx.key, args, pattern)
    lease = Lease(prepared)
    now = [tensors[place].clone() for place in prepared.mutated]
    random = _random(device)
    _put_back(prepared, tensors, ctx.before)
    _set_random(ctx.random, device)
    try:
        _forward(prepared, lease, tensors)
    except BaseException:
        lease.end()
        raise
    finally:
        _put_back(prepared, tensors, now)
        _set_random(random, device)
    return prepared, lease


def _check_views(args):
    """The engine reads memory, which of these has other numbers than the tensor."""
    for number, arg in enumerate(args):
        if isinstance(arg, torch.Tensor) and (arg.is_conj() or arg.is_neg()):
            raise CaptureError(f"input {number} of the graph is a conjugate or negative view, {OF_VIEWS}")


def _key(args):
    """What a capture depends on."""
    forms = tuple((tuple(a.shape), a.stride(), a.dtype, a.requires_grad, type(a)) if isinstance(a, torch.Tensor) else a for a in args)
    device = device_of_all(args)
    return forms, torch.is_grad_enabled(), autocast_now(device), device


def _random(device):
    """The state of every generator that ops on the device may draw from."""
    return torch.get_rng_state(), None if device == "cpu" else torch.cuda.get_rng_state(device)


def _set_random(states, device):
    torch.set_rng_state(states[0])
    if device != "cpu":
        torch.cuda.set_rng_state(states[1], device)


def piece_arguments(key, tensors):
    """The arguments of a call again, from its key and its tensors."""
    tensors = iter(tensors)
    out = []
    for form in key[0]:
        if isinstance(form, tuple) and len(form) == 5 and isinstance(form[2], torch.dtype):
            tensor = next(tensors).detach()
            out.append(torch.nn.Parameter(tensor, form[3]) if issubclass(form[4], torch.nn.Parameter) else tensor.requires_grad_(form[3]))
        else:
            out.append(form)
    return out


def _changed(prepared, tensors):
    if prepared.mutated:
        torch.autograd.graph.increment_version([tensors[place] for place in prepared.mutated])


def _put_back(prepared, tensors, contents):
    changed = [tensors[place] for place in prepared.mutated]
    if changed:
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tuple(changed)):
            for tensor, content in zip(changed, contents):
                tensor.copy_(content)


def _reach(tensor):
    if tensor.numel() == 0:
        return 0, 0
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + span * tensor.itemsize


class _out_of_memory:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is MemoryError:
            raise torch.OutOfMemoryError(str(error)) from None


def _why_broken(module):
    """One line that names the user's line; None where the graph is whole."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    stack = reason.user_stack
    line = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else "an unknown line"
    text = str(reason.reason).strip().splitlines()
    return f"torch.compile breaks the graph at {line} ({text[0] if text else 'no reason given'}); fullgraph=True shows why"
