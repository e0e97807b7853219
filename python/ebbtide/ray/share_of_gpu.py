"""tune.with_resources(train_fn, ebbtide.ray.resources(step_fn, gpu=...)): the share of a GPU that each trial will take, from its predicted peak."""

from __future__ import annotations

import functools
import json
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from ray import tune
from ray.tune import Callback, PlacementGroupFactory

from ..arguments import shown_bytes
from ..errors import BudgetError
from .step_function import Card, StepFunction, predicted_bytes, training_of

_LABEL = "ray.io/accelerator-type"
_SMALLEST_SHARE = 100  # trials to a card, at most


def resources(step_fn: StepFunction, gpu: str | os.PathLike[str] | Sequence[str] | None = None, *, capacity: int | str | None = None, cpus: float = 1,
              by: Sequence[str] | None = None, label: bool = True, seed: int = 0) -> Resources:
    """What tune.with_resources takes: a function from a trial's config to a PlacementGroupFactory.

    `step_fn(config)` makes (model, loss_fn, optimizer, batch) as the trial will train them. `gpu` is a name that `ebbtide gpus` lists, or several:
    a trial gets the smallest that it fits. The share is 1/k, so that k trials fill a card and none is put across two. With `label` the placement
    asks for Ray's accelerator type of that GPU. `capacity`, in place of `gpu`: trials train on the CPU, and each logical GPU of Ray stands for so much of
    its memory. `by` names the entries of the config that change the model, its batch or its optimizer; configs that agree in them are predicted once
    (None: all entries count). A trial that fits no card is refused with ebbtide.BudgetError.
    """
    return Resources(step_fn, gpu, capacity=capacity, cpus=cpus, by=by, label=label, seed=seed)


class Resources:
    """See ebbtide.ray.resources. `wrap(train_fn)` does more: a cap on memory inside the trial, and only the trial that fits nowhere is refused."""

    def __init__(self, step_fn: StepFunction, gpu: str | os.PathLike[str] | Sequence[str] | None, *, capacity: int | str | None, cpus: float,
                 by: Sequence[str] | None, label: bool, seed: int) -> None:
        if (gpu is None) == (capacity is None):
            raise ValueError("expected gpu=, the names of cards, or capacity=, the memory that a logical GPU stands for on the CPU")
        names = [gpu] if isinstance(gpu, (str, os.PathLike)) else list(gpu or ())
        cards = [Card.of_cpu(capacity)] if capacity is not None else [Card.of(name) for name in names]
        self.cards = sorted(cards, key=lambda card: card.memory_bytes)
        self._step_fn, self._cpus, self._by, self._label, self._seed = step_fn, cpus, by, label, seed
        self._by_config: dict[str, dict[str, int]] = {}
        self._by_graph: dict[tuple[str, str], int] = {}
        self.more: dict[str, int] = {}  # trial -> how often it has run out of memory

    def __call__(self, config: Mapping[str, Any]) -> PlacementGroupFactory:
        card, share = self.choose(config)
        return self._placement(card, share)

    def choose(self, config: Mapping[str, Any], times: int = 0) -> tuple[Card, int]:
        """The card and k, of whose 1/k the trial gets. `times` it has run out of memory there: each gives it half as many neighbours, then a larger
        card."""
        predicted = {}
        for card in self.cards:
            predicted[card.name] = needed = self.predict(config, card)
            share = min(card.memory_bytes // needed, _SMALLEST_SHARE)
            while share > 1 and times > 0:
                share, times = share // 2, times - 1
            if share >= 1 and (times == 0 or card is self.cards[-1]):
                return card, share
            times = max(times - 1, 0)
        largest = self.cards[-1]
        raise BudgetError(f"a training of {dict(config)} takes {shown_bytes(predicted[largest.name])}; the largest card, {largest.name}, has "
                          f"{shown_bytes(largest.memory_bytes)}", predicted[largest.name])

    def predict(self, config: Mapping[str, Any], card: Card) -> int:
        """Bytes of the card that a trial of this config takes."""
        counts = dict(config) if self._by is None else {name: config[name] for name in self._by}
        known = self._by_config.setdefault(json.dumps(counts, sort_keys=True, default=repr), {})
        if card.name not in known:
            with torch.random.fork_rng(devices=[]):
                known[card.name] = predicted_bytes(training_of(self._step_fn, config, self._seed), card, self._by_graph)
        return known[card.name]

    def _placement(self, card: Card, share: int) -> PlacementGroupFactory:
        selector = {"bundle_label_selector": [{_LABEL: card.accelerator}]} if self._label and card.accelerator else {}
        return PlacementGroupFactory([{"CPU": self._cpus, "GPU": 1 if share == 1 else int(10_000 / share) / 10_000}], **selector)

    def wrap(self, train_fn: Callable[[Any], Any]) -> Any:
        """What a Tuner takes. Inside a trial torch gets no more of the GPU than its share; one that fits no card ends with BudgetError, and takes
        no GPU for it."""
        wanted = _Wanted(self)

        @functools.wraps(train_fn)
        def capped(config: Any) -> Any:
            refusal = wanted.refusal(config)
            if refusal is not None:
                raise BudgetError(refusal)
            cap()
            return train_fn(config)

        return tune.with_resources(capped, wanted)

    def more_memory(self) -> MoreMemory:
        """A callback for the RunConfig: a trial that has run out of memory gets more when it is tried again, as max_failures of the FailureConfig lets it."""
        return MoreMemory(self)


class _Wanted:
    """Resources for trials that may be refused one by one: such a one gets a CPU, in which to say why."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def __call__(self, config: Mapping[str, Any]) -> PlacementGroupFactory:
        try:
            return self._resources(config)
        except BudgetError:
            return PlacementGroupFactory([{"CPU": self._resources._cpus}])

    def refusal(self, config: Mapping[str, Any]) -> str | None:
        """In the trial: why it was given no GPU; None where it has one."""
        if _share_given():
            return None
        try:
            self._resources.choose(config)
        except BudgetError as error:
            return str(error)
        return None


def _share_given() -> float | None:
    given = tune.get_context().get_trial_resources()
    return given.bundles[0].get("GPU") if given is not None and given.bundles else None


def cap() -> float | None:
    """Inside a trial: torch gets no more of the GPU than the trial's share of it. Returns the share; None where the trial has no GPU or torch sees none."""
    share = _share_given()
    if not share or not torch.cuda.is_available():
        return None
    if share < 1:
        torch.cuda.set_per_process_memory_fraction(share)
    return float(share)


class MoreMemory(Callback):  # type: ignore[misc, unused-ignore]
    """See Resources.more_memory."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.moved: list[tuple[str, dict[str, float]]] = []  # trials, and what they got

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if not _ran_out(trial):
            return
        times = self._resources.more[trial.trial_id] = self._resources.more.get(trial.trial_id, 0) + 1
        wanted = self._resources._placement(*self._resources.choose(trial.config, times))
        trial.update_resources(wanted)
        self.moved.append((trial.trial_id, dict(wanted.bundles[0])))


def _ran_out(trial: Any) -> bool:
    """By the error that the trial has left."""
    path = trial.pickled_error_file
    if not path or not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        error = pickle.load(file)
    return "OutOfMemoryError" in f"{type(error).__mro__} {getattr(error, 'cause', None)!r} {error}"
