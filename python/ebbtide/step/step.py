"""ebbtide.step: one training step as a function, within a budget of device memory, with the numbers of plain PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

from .. import interrupts, native
from ..arguments import ASSUMED_LINKS, bandwidth, budget_text, device_of
from ..capture.alone import alone
from ..capture.errors import pointing_to
from ..capture.step import CapturedStep, CaptureOptions, capture_step
from ..capture.watch.notes import is_atom
from ..capture.watch.watch import Effect, Watch, watch_of
from ..errors import BudgetError, CaptureError
from ..inductor import check_kernels
from ..progress import Reporter, counting
from ..progress import report as report_progress
from .batch import Leaves, check_negative, check_sources, form_of, hollow, name_of
from .behind import has_gradient_hooks, told, why_plain
from .contexts import contexts
from .gradients import Gradients, hook_of
from .guards import StepGuards, carry, first_difference
from .plan import ALIGNMENTS, Planned, PlanOptions, make_plan
from .prepared import Prepared, make_engine, make_pool, tensors_of
from .profile import Profile, profile, sized
from .report import Report
from .state import StateChanged

if TYPE_CHECKING:
    from ..shared.shared import Shared

NO_LIMIT = {"cpu": "1000%", "cuda": "110%"}  # the CPU's memory is taken as it is used
_MOST_PLANS = 8  # for different batches and different values of what Python code reads, kept at a time
_MANY_CAPTURES = 3  # of one form of batch: from then on a warning says what changes
_OTHER_WAYS = ("torch.compile(model, backend='ebbtide'), for parts of the code and any optimizer,", "`with ebbtide.budget(...)`, for any eager code,")
_MEASURED_RUNS = 3  # of a step on made-up state, which tell the times of its ops in place


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How a step is prepared and run; the same names as in ebbtide.step, which says what each means."""

    budget: int | str | None = None  # bytes, a text as "4GiB", a share of the plain peak as "50%"; None: no limit
    policy: str = "home"
    link: float | str | None = None  # bytes per second, or a text as "12GB/s"; None: copies are not slowed down
    device: str | torch.device = "cpu"
    autocast: torch.dtype | None = None
    accumulate: int = 1  # batches to an update
    clip_grad_norm: float | None = None
    clip_grad_value: float | None = None
    on_gradients: Callable[[list[torch.Tensor]], object] | None = None
    swap_state: bool = False  # parameters and optimizer state may leave the pool too
    reorder: bool = False  # the order of ops may change where that gives the same bits
    measure: bool | Literal["again"] = True
    pinned_limit: int | None = None  # bytes of the host; None: as many as copies need
    kernels: str = "eager"  # whose kernels run: "eager" or "inductor"
    cuda_graphs: bool = False  # runs of ops between copies are captured and launched as CUDA graphs
    recheck: int | None = None  # every so many steps the step is captured again and compared; 0: never; None: as EBBTIDE_RECHECK says
    progress: Reporter = report_progress


def _exclusive(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a step that runs as a whole or not at all, whatever signals come, and beside no other of them."""

    @functools.wraps(method)
    def wrapper(self: Step, *args: Any, **kwargs: Any) -> Any:
        with interrupts.deferred(), self._gate:
            return method(self, *args, **kwargs)

    return wrapper


class Step:
    """Call it with a batch: it trains one step and returns the loss. See ebbtide.step."""

    @interrupts.deferring
    def __init__(self, model: torch.nn.Module, loss_fn: Callable[..., torch.Tensor] | None,
                 optimizer: torch.optim.Optimizer, example_batch: Any, options: StepOptions) -> None:
        self._gate = native.Gate("the step")
        self._device = device_of(options.device)
        if optimizer is None:
            raise ValueError("optimizer None: expected one of torch.optim's")
        accumulate = options.accumulate
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise ValueError(f"accumulate {accumulate!r}: expected a number of batches from 1 on")
        check_kernels(options.kernels)
        if options.cuda_graphs and self._device == "cpu":
            raise ValueError("cuda_graphs=True: expected device='cuda'")
        self._options = options
        self._accumulate, self._collected = accumulate, 0
        self._totals: dict[Any, torch.Tensor] = {}  # sums of gradients, by parameter
        self._hook = hook_of(options.clip_grad_norm, options.clip_grad_value, options.on_gradients)
        self._model = getattr(model, "_orig_mod", model)
        self._loss_fn, self._optimizer = loss_fn, optimizer
        self._link, self._pinned_limit = bandwidth(options.link), -1 if options.pinned_limit is None else options.pinned_limit
        self._budget = budget_text(NO_LIMIT[self._device[:4]] if options.budget is None else options.budget)
        self._pool: native.Pool | None = None  # memory, while there is any
        self._capacity: int | None = None  # its size, once it is known
        self._lent_to: Shared | None = None
        self._plans: OrderedDict[Any, Prepared] = OrderedDict()
        self._aside: list[tuple[Any, Prepared]] = []  # those whose guards did not hold when they were asked last, the oldest first
        self._anew: dict[Any, int] = {}  # key -> how often the guards of a plan for it did not hold
        self._told: set[str] = set()  # why PyTorch runs the optimizer
        self._recheck = recheck_of(options.recheck)
        self._current: Prepared | None = None
        self._example = example_batch
        self._is_dict = isinstance(example_batch, Mapping)
        self._is_tuple = isinstance(example_batch, (tuple, list))
        # The step with the update first: it takes more, and the pool is made for it.
        for self._collected in sorted({accumulate - 1, 0}, reverse=True):
            self._prepare(example_batch)

    @_exclusive
    def __call__(self, *batch: Any, **named: Any) -> torch.Tensor:
        if self._lent_to is not None:
            raise RuntimeError("the step is one of an ebbtide.Shared, which runs it; close that first")
        given = self._batch_of(batch, named)
        leaves, shape = tree_flatten_with_path(given)
        key, prepared = self._prepared_for(given, leaves, shape)
        if self._recheck and prepared.steps % self._recheck == self._recheck - 1:
            self._check_again(prepared, given)
        try:
            loss = self._run(prepared, leaves)
        except StateChanged:
            self._forget(key)
            loss = self._run(self._prepare(given), leaves)
        self._collected = (self._collected + 1) % self._accumulate
        return loss

    def _prepared_for(self, batch: Any, leaves: Leaves, shape: Any) -> tuple[Hashable, Prepared]:
        """The plan for batches of this form, which is made if need be, and its key."""
        key = self._key(leaves, shape)
        prepared = self._plans.get(key)
        if prepared is not None and not prepared.still_fits():
            self._aside.append((key, self._plans.pop(key)))
            prepared = self._taken_back(key)
            if prepared is None:
                self._count_captures(key)
        if prepared is None:
            prepared = self._prepare(batch)
        self._plans[key] = prepared
        self._plans.move_to_end(key)
        return key, prepared

    def _count_captures(self, key: Hashable) -> None:
        """Says so where the step is captured time and again."""
        self._anew[key] = self._anew.get(key, 0) + 1
        if self._anew[key] == _MANY_CAPTURES:
            last = self._aside[-1][1]
            warnings.warn(f"the step is captured anew for the {_MANY_CAPTURES}rd time, which takes {last.captured.seconds:.1f} s and more: "
                          f"{last.guards.why() or 'the optimizer changed'}. Numbers that change from step to step may be tensors instead, whose values "
                          "are read anew each time", stacklevel=6)

    def _taken_back(self, key: Hashable) -> Prepared | None:
        """A plan that was set aside and whose guards hold again."""
        for place, (other, prepared) in reversed(list(enumerate(self._aside))):
            if other == key and prepared.still_fits():
                return self._aside.pop(place)[1]
        return None

    def _applies(self) -> bool:
        """Whether the next batch is the last before an update."""
        return self._collected == self._accumulate - 1

    def report(self) -> Report:
        """What the last step took, and what was predicted."""
        return Report(self._current)

    @_exclusive
    def close(self) -> None:
        """Moves parameters, buffers and optimizer state out of the pool. The next step moves them back."""
        self._move_out()

    def _move_out(self) -> None:
        if self._current is not None:
            self._current.engine.move_out()
            self._current = None

    def _lend(self, borrower: Shared | None) -> None:
        """The state is the user's memory, and the pool is given back, until `borrower` is None again."""
        self.close()
        for prepared in (*self._plans.values(), *(prepared for _, prepared in self._aside)):
            prepared.let_go()
        self._pool, self._lent_to = None, borrower

    def own_pool(self) -> native.Pool:
        """Memory of the budget's size for this step alone, which is made if need be."""
        if self._pool is None:
            assert self._capacity is not None  # the first plan has said it
            self._pool = make_pool(self._capacity, self._device, self._link, self._pinned_limit)
        return self._pool

    def _run(self, prepared: Prepared, leaves: Leaves) -> torch.Tensor:
        if self._current is not prepared:
            if self._current is not None:
                self._current.engine.move_out()
            self._current = prepared
        return prepared.run(tensors_of(leaves))

    def _batch_of(self, batch: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if named:
            if batch or not self._is_dict:
                raise TypeError("expected the batch as the example was: a dict's entries by name, all else in order")
            return named
        if self._is_tuple and not (len(batch) == 1 and isinstance(batch[0], (tuple, list))):
            return batch
        if len(batch) != 1:
            raise TypeError(f"expected one batch, found {len(batch)} arguments")
        return dict(batch[0]) if self._is_dict else tuple(batch[0]) if self._is_tuple else batch[0]

    def _key(self, leaves: Leaves, shape: Any) -> Hashable:
        modes = tuple(module.training for module in self._model.modules())
        frozen = tuple(p.requires_grad for p in self._model.parameters())
        with pointing_to(*_OTHER_WAYS):
            return self._applies(), repr(shape), form_of(leaves), modes, frozen, contexts(self._device)

    def _forget(self, key: Hashable) -> None:
        self._let_go(self._plans.pop(key))

    def _let_go(self, prepared: Prepared) -> None:
        if prepared is self._current:
            self._move_out()

    def _plan(self, graph: dict[str, Any], budget: int | str) -> Planned:
        return make_plan(graph, PlanOptions(budget=budget, policy=self._options.policy, swap_state=self._options.swap_state, reorder=self._options.reorder,
                                            link=self._link or ASSUMED_LINKS[self._device[:4]], alignment=ALIGNMENTS[self._device[:4]]))

    def _prepare(self, batch: Any) -> Prepared:
        if isinstance(batch, Mapping):
            batch = dict(batch)
        leaves, shape = tree_flatten_with_path(batch)
        key = self._key(leaves, shape)
        note = self._options.progress
        note(f"capturing {type(self._model).__name__}")
        captured, guards = self._capture(leaves, shape)
        for place, (other, prepared) in enumerate(self._aside):
            if other == key and first_difference(prepared.captured.unfused or prepared.captured, captured) is None:
                # What changed makes no difference to the step.
                prepared.refresh(captured, guards)
                self._plans[key] = self._aside.pop(place)[1]
                note("")
                return prepared
        if self._options.kernels == "inductor":
            from ..inductor.fuse import fuse_capture  # Inductor takes a second to import

            note("compiling by Inductor")
            captured = fuse_capture(captured, self._device)
        measured = None
        if self._options.measure:
            measured = profile(captured.graph, counting(note, "measuring ops"), again=self._options.measure == "again",
                               device=self._device)
        if measured and captured.fused and captured.unfused:
            note("measuring ops as captured")
            captured.fused |= _times_saved(profile(captured.unfused.graph, device=self._device), measured)
        graph = measured.graph if measured else sized(captured.graph, self._device)
        budget = self._budget if self._capacity is None else self._capacity
        note("planning")
        planned = self._plan(graph, budget)
        if self._capacity is None:
            self._capacity = planned.said["budget_bytes"]
        if measured and not measured.in_place and self._lent_to is None:
            note("measuring ops in place")
            self._move_out()  # the pool is needed for it
            times = make_engine(planned, measured, self.own_pool()).measure_ops(_MEASURED_RUNS, self._device == "cpu" and torch.get_num_threads() == 1)
            if times is not None:
                measured.set_times_in_place(times)
                with contextlib.suppress(BudgetError):  # what is found at the limit depends on times; the first plan works
                    planned = self._plan(graph, self._capacity)
        prepared = Prepared(self, captured, guards, graph, measured, planned, leaves)
        note("")
        self._plans[key] = prepared
        while len(self._plans) + len(self._aside) > _MOST_PLANS:
            self._let_go(self._aside.pop(0)[1] if self._aside else self._plans.popitem(last=False)[1])
        return prepared

    def _capture(self, leaves: Leaves, shape: Any) -> tuple[CapturedStep, StepGuards]:
        """The step for batches of this form, and what it depends on."""
        with alone(), pointing_to(*_OTHER_WAYS):  # from where the watch begins to where it is asked
            batch = tree_unflatten([hollow(path, leaf, self._device) for path, leaf in leaves], shape)
            captured, watch = self._captured_once(batch)
            refusal, effects = watch.refusal(), watch.effects(captured)
            if refusal is not None and effects is None:
                raise CaptureError(refusal)
            guards = watch.guards()
            for path, why in guards.refused:
                raise CaptureError(f"{path}, which the step's code may read, {why}")
            effects = effects or []
            uncovered = [effect for effect in effects if not guards.covers(effect.note, effect.key)]
            if uncovered and not self._settles(batch, uncovered):
                raise CaptureError(refusal)
            check_negative([name_of(path) for path, leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_neg()], captured.graph,
                           {source.name: storage for storage, source in captured.sources.items()})
            check_sources(captured.sources.values())
            effects = carry(captured, guards, watch, effects)
        self._tell_plain(captured)
        for asked in watch.shows():
            warnings.warn(f"{asked.line}: {asked.what} when the step is captured, and not at each step", stacklevel=2)
        captured.value_of, captured.batch, captured.kept = lambda fake: None, [], {key: (number, number) for key, (_, number) in captured.kept.items()}
        return captured, StepGuards(guards, captured, effects)

    def _captured_once(self, batch: Any) -> tuple[CapturedStep, Watch]:
        watch = Watch(watch_of(self._model, self._loss_fn, on_gradients=self._options.on_gradients))
        plain = why_plain(self._model, tree_leaves(batch))
        if (self._hook is not None or self._accumulate > 1) and has_gradient_hooks(self._model):
            done = "clipped or given to on_gradients" if self._hook is not None else "added up"
            raise CaptureError(f"a parameter has a hook that runs after its gradient is stored, and gradients are {done} in the step; expected one of them")
        captured = capture_step(
            self._model, self._loss_fn, self._optimizer, batch, CaptureOptions(
                device=self._device, autocast=self._options.autocast, watch=watch, for_running=True, plain_update=plain,
                around=lambda update: Gradients(update, self._accumulate > 1, self._applies(), self._hook)))
        return captured, watch

    def _settles(self, batch: Any, effects: list[Effect]) -> bool:
        """Whether a step that has written these, which nothing compares, is followed by steps that do not."""
        if not all(is_atom(effect.new) for effect in effects):
            return False
        try:
            for effect in effects:
                effect.note.put(effect.key, effect.new)
            written = {change.path for change in self._captured_once(batch)[1].changes}
            return not any(effect.note.path_of(effect.key) in written for effect in effects)
        finally:
            for effect in effects:
                effect.note.put_back()

    def _tell_plain(self, captured: CapturedStep) -> None:
        """Once, where PyTorch runs the optimizer."""
        plain = captured.update.plain
        if plain is not None and plain.why not in self._told:
            self._told.add(plain.why)
            warnings.warn(told(plain, captured), stacklevel=2)

    def _check_again(self, prepared: Prepared, batch: Any) -> None:
        """Raises CaptureError where a capture of now is not the one that is about to run."""
        captured, _ = self._capture(*tree_flatten_with_path(batch))
        difference = first_difference(prepared.captured.unfused or prepared.captured, captured)
        if difference is not None:
            raise CaptureError(f"the step is not the one that was captured, and nothing that is watched has changed: {difference}; expected Python code "
                               "that decides by what it can reach")


def _times_saved(captured: Profile, fused: Profile) -> dict[str, int]:
    """What ops take, as captured and as fused, each measured alone."""
    (captured_time, captured_missing), (time, missing) = captured.alone(), fused.alone()
    return {"captured_time_ns": captured_time, "time_ns": time, "captured_not_measured": captured_missing, "not_measured": missing}


def recheck_of(given: int | None) -> int:
    """Steps from one check to the next; 0: none."""
    text = os.environ.get("EBBTIDE_RECHECK", "0") if given is None else given
    try:
        count = -1 if isinstance(text, bool) else int(text)
    except (TypeError, ValueError):
        count = -1
    if count < 0:
        raise ValueError(f"{'EBBTIDE_RECHECK' if given is None else 'recheck'} {text!r}: expected a number of steps, 0 for none")
    return count
