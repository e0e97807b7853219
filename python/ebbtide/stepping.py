"""ebbtide.step: one training step as a function, within a budget of device memory, with the numbers of plain PyTorch."""

import contextlib
import sys
from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from . import _core
from .capture_errors import pointing_to
from .capture_step import capture_step
from .step_arguments import ASSUMED_LINKS, bandwidth, budget_text, device_of
from .step_gradients import Gradients, hook_of
from .step_plan import BudgetError, make_plan
from .step_profile import profile
from .step_report import Report
from .step_state import State, StateChanged
from .torch_library import library

NO_LIMIT = {"cpu": "1000%", "cuda": "110%"}  # the CPU's memory is taken as it is used
_MOST_PLANS = 8  # of different shapes, kept at a time
_REHEARSALS = 3


class Step:
    """Call it with a batch: it trains one step and returns the loss. See ebbtide.step."""

    def __init__(self, model, loss_fn, optimizer, example_batch, budget, policy, link, device, autocast, accumulate,
                 clip_grad_norm, clip_grad_value, on_gradients, swap_state, measure, note=None, pinned_limit=None):
        self._device = device_of(device)
        if optimizer is None:
            raise ValueError("optimizer None: expected one of torch.optim's")
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise ValueError(f"accumulate {accumulate!r}: expected a number of batches from 1 on")
        self._accumulate, self._collected, self._totals = accumulate, 0, {}
        self._hook = hook_of(clip_grad_norm, clip_grad_value, on_gradients)
        self._model = getattr(model, "_orig_mod", model)
        self._loss_fn, self._optimizer, self._policy = loss_fn, optimizer, policy
        self._autocast, self._swap_state, self._measure, self._note = autocast, swap_state, measure, note or tell
        self._link, self._pinned_limit = bandwidth(link), -1 if pinned_limit is None else pinned_limit
        self._budget = budget_text(NO_LIMIT[self._device[:4]] if budget is None else budget)
        self._pool, self._capacity = None, None  # memory, while there is any; its size, once it is known
        self._lent_to = None  # an ebbtide.Shared
        self._plans = OrderedDict()  # key -> Prepared
        self._current = None
        self._example = example_batch
        self._is_dict = isinstance(example_batch, Mapping)
        self._is_tuple = isinstance(example_batch, (tuple, list))
        # The step with the update first: it takes more, and the pool is made for it.
        for self._collected in sorted({accumulate - 1, 0}, reverse=True):
            self._prepare(example_batch)

    def __call__(self, *batch, **named):
        if self._lent_to is not None:
            raise RuntimeError("the step is one of an ebbtide.Shared, which runs it; close that first")
        batch = self._batch_of(batch, named)
        leaves, shape = tree_flatten_with_path(batch)
        key, prepared = self._prepared_for(batch, leaves, shape)
        try:
            loss = self._run(prepared, leaves)
        except StateChanged:
            self._forget(key)
            loss = self._run(self._prepare(batch), leaves)
        self._collected = (self._collected + 1) % self._accumulate
        return loss

    def _prepared_for(self, batch, leaves, shape):
        """The plan for batches of this form, which is made if need be, and its key."""
        key = self._key(leaves, shape)
        prepared = self._plans.get(key)
        if prepared is not None and not prepared.still_fits():
            self._forget(key)
            prepared = None
        if prepared is None:
            prepared = self._prepare(batch)
        self._plans.move_to_end(key)
        return key, prepared

    def _applies(self):
        """Whether the next batch is the last before an update."""
        return self._collected == self._accumulate - 1

    def report(self):
        """What the last step took, and what was predicted."""
        return Report(self._current)

    def close(self):
        """Moves parameters, buffers and optimizer state out of the pool. The next step moves them back."""
        if self._current is not None:
            self._current.engine.move_out()
            self._current = None

    def _lend(self, borrower):
        """The state is the user's memory, and the pool is given back, until `borrower` is None again."""
        self.close()
        for prepared in self._plans.values():
            prepared.let_go()
        self._pool, self._lent_to = None, borrower

    def own_pool(self):
        if self._pool is None:
            self._pool = make_pool(self._capacity, self._device, self._link, self._pinned_limit)
        return self._pool

    def _run(self, prepared, leaves):
        if self._current is not prepared:
            if self._current is not None:
                self._current.engine.move_out()
            self._current = prepared
        return prepared.run(tensors_of(leaves))

    def _batch_of(self, batch, named):
        if named:
            if batch or not self._is_dict:
                raise TypeError("expected the batch as the example was: a dict's entries by name, all else in order")
            return named
        if self._is_tuple and not (len(batch) == 1 and isinstance(batch[0], (tuple, list))):
            return batch
        if len(batch) != 1:
            raise TypeError(f"expected one batch, found {len(batch)} arguments")
        return dict(batch[0]) if self._is_dict else tuple(batch[0]) if self._is_tuple else batch[0]

    def _key(self, leaves, shape):
        forms = [(tuple(x.shape), x.stride(), x.dtype, x.device, x.requires_grad) if isinstance(x, torch.Tensor) else x for _, x in leaves]
        modes = tuple(module.training for module in self._model.modules())
        frozen = tuple(p.requires_grad for p in self._model.parameters())
        return self._applies(), repr(shape), tuple(forms), modes, frozen

    def _forget(self, key):
        prepared = self._plans.pop(key)
        if prepared is self._current:
            self.close()

    def _plan(self, graph, budget):
        return make_plan(graph, budget, self._policy, self._link or ASSUMED_LINKS[self._device[:4]], swap_state=self._swap_state)

    def _prepare(self, batch):
        if isinstance(batch, Mapping):
            batch = dict(batch)
        leaves, shape = tree_flatten_with_path(batch)
        key = self._key(leaves, shape)
        # Of its tensors the capture needs the form alone, and not the storages that they are parts of.
        hollow = tree_unflatten([_hollow(leaf, self._device) for _, leaf in leaves], shape)
        self._note(f"capturing {type(self._model).__name__}")
        with pointing_to("torch.compile(model, backend='ebbtide'), for parts of the code and any optimizer,", "`with ebbtide.budget(...)`, for any eager code,"):
            captured = capture_step(
                self._model, self._loss_fn, self._optimizer, hollow, device=self._device, autocast=self._autocast,
                around=lambda update: Gradients(update, self._accumulate > 1, self._applies(), self._hook))
        measured = None
        if self._measure:
            measured = profile(captured.graph, lambda done, of: self._note(f"measuring ops: {done} of {of}"), again=self._measure == "again",
                               device=self._device)
        graph = measured.graph if measured else captured.graph
        budget = self._budget if self._capacity is None else self._capacity
        self._note("planning")
        planned = self._plan(graph, budget)
        if self._capacity is None:
            self._capacity = planned.said["budget_bytes"]
        if measured and not measured.rehearsed and self._lent_to is None:
            self._note("rehearsing")
            self.close()  # the pool is needed for it
            times = make_engine(planned, measured, self.own_pool()).rehearse(_REHEARSALS, self._device == "cpu" and torch.get_num_threads() == 1)
            if times is not None:
                measured.rehearse(times)
                with contextlib.suppress(BudgetError):  # what is found at the limit depends on times; the first plan works
                    planned = self._plan(graph, self._capacity)
        prepared = Prepared(self, captured, graph, measured, planned, leaves)
        self._note("")
        self._plans[key] = prepared
        while len(self._plans) > _MOST_PLANS:
            self._forget(next(iter(self._plans)))
        return prepared


class Prepared:
    """A step for one form of batch: its plan, and where it runs alone."""

    def __init__(self, step, captured, graph, measured, planned, leaves):
        self.step, self.captured, self.graph, self.measured, self.planned = step, captured, graph, measured, planned
        self.steps = 0
        self.last = None
        by_name = {source.name: storage for storage, source in captured.sources.items() if source.kind == "input"}
        self.inputs = [by_name[_name(path)] for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.changed = {graph["tensors"][t]["storage"] for op in graph["ops"] for t in op.get("mutated", ())} & set(self.inputs)
        self.loss = graph["tensors"][graph["outputs"][0]]
        self._alone = None
        if step._lent_to is None:
            self.alone()

    def alone(self):
        """On the step's own pool."""
        if self._alone is None:
            pool = self.step.own_pool()
            self._alone = Execution(self, make_engine(self.planned, self.measured, pool), pool.device)
        return self._alone

    def let_go(self):
        self._alone = None

    @property
    def engine(self):
        return self.alone().engine

    def still_fits(self):
        return self.captured.update.still_fits()

    def run(self, tensors):
        return self.alone().run(tensors)


class Execution:
    """A prepared step on an engine."""

    def __init__(self, prepared, engine, device):
        self.prepared, self.engine, self.device = prepared, engine, device
        step = prepared.step
        self.state = State(step._model, step._optimizer, step._totals, prepared.captured, device)

    def move_in(self):
        """State goes to where the engine has it, unless it is there."""
        self.state.attach(self.engine)
        if self.engine.move_in() and self.device != "cpu":
            torch.cuda.empty_cache()  # what was moved has left its memory to torch

    def run(self, tensors):
        self.move_in()
        prepared = self.prepared
        update, form = prepared.captured.update, prepared.loss
        inputs = [(s, 0, t.data_ptr(), _span(t)) for s, t in zip(prepared.inputs, tensors)]
        loss = torch.empty(form["shape"], dtype=getattr(torch, form["dtype"]), device=self.device)
        outputs = [(form["storage"], form.get("offset", 0) * loss.itemsize, loss.data_ptr(), loss.nbytes)]
        outputs += [span for span in inputs if span[0] in prepared.changed]
        try:
            prepared.last = self.engine.step(update.scalar_values(), inputs, outputs)
        except MemoryError as error:
            raise torch.OutOfMemoryError(f"{error}; the step has changed nothing") from None
        prepared.steps += 1
        self.state.step_taken(update)
        return loss


def tensors_of(leaves):
    return [leaf.resolve_conj().resolve_neg() for _, leaf in leaves if isinstance(leaf, torch.Tensor)]


def tell(text):
    """Progress, on one line of a terminal; nothing ends it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def make_pool(size, device, link=None, pinned_limit=-1):
    """Memory for steps to run in. `link`: bytes per second, on the CPU."""
    if device != "cpu":
        return _core.Pool.cuda(size, torch.device(device).index, pinned_limit)
    return _core.Pool(size, float(link or 0), float(link or 0))


def make_engine(planned, measured, pool):
    engine = _core.Engine(planned.graph, planned.text, library(pool.device.partition(":")[0]), pool)
    for op, requests in enumerate(measured.requests if measured else ()):
        if requests:
            engine.set_requests(op, requests)
    return engine


def _name(path):
    return ".".join(["batch", *(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)])


def _hollow(leaf, device):
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.device.type not in ("cpu", "meta") and str(leaf.device) != device:
        raise ValueError(f"the batch is on {leaf.device}; expected {device}")
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta").requires_grad_(leaf.requires_grad)


def _span(tensor):
    """Bytes from its first element to its last."""
    if tensor.numel() == 0:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))) * tensor.itemsize
