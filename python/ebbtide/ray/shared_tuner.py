"""ebbtide.ray.SharedTuner: a search whose trials share GPUs, under Tune's own schedulers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.tune import PlacementGroupFactory

from .trial_proxy import TrialProxy

if TYPE_CHECKING:
    from .step_function import StepFunction

_HEAD = "node:__internal_head__"
_TRIALS_PER_GPU = 4  # that are begun at once, where nobody says


class SharedTuner:
    """SharedTuner(step_fn, capacity="10GiB", iterations=1000, param_space=..., tune_config=...).fit(): as ray.tune.Tuner, with several trials on each GPU.

    `step_fn(config)` makes (model, loss_fn, optimizer, batch), and behind them what to train on if it is not that batch alone: an iterable, gone
    through again when it ends. One actor for each of `gpus` (None: all that the cluster has) holds an ebbtide.Shared of `capacity`; a trial goes where
    the arranger of `ebbtide share` predicts the shortest round, and waits where there is room nowhere. It takes `iterations` steps and reports
    every `report_every` of them: `loss`, `mean_loss`, `iterations`. Tune's schedulers stop, pause and mutate trials, which are the same to the last bit
    as alone. A GPU whose process or node is lost gives its trials to others, from where they were saved last (each `save_every` reports).
    `by` names the entries of the config that change the model, its batch or its optimizer's kind; configs that agree in them are captured once to be
    placed. `device` is "cuda", or "cpu", where `capacity` is memory of the CPU and Ray's GPUs are logical. `actor_options` go to the actors
    (`runtime_env`, `label_selector`, ...). Trials, which only wait, run on the head node; so does what places them.
    """

    def __init__(self, step_fn: StepFunction, *, capacity: int | str, iterations: int, report_every: int = 10, save_every: int = 1,
                 param_space: dict[str, Any] | None = None, tune_config: tune.TuneConfig | None = None, run_config: tune.RunConfig | None = None,
                 gpus: int | None = None, device: str = "cuda", by: Sequence[str] | None = None, seed: int = 0, threads: int = 1,
                 measure: bool = True, actor_options: dict[str, Any] | None = None) -> None:
        for name, value in (("iterations", iterations), ("report_every", report_every), ("save_every", save_every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} {value!r}: expected a number from 1 on")
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device {device!r}: expected 'cpu' or 'cuda'")
        if isinstance(capacity, str) and capacity.strip().endswith("%"):
            raise ValueError(f"capacity {capacity!r}: expected bytes or a text as '10GiB'")
        self._step_fn, self._iterations, self._report_every, self._save_every = step_fn, iterations, report_every, save_every
        self._space, self._tune, self._run = param_space or {}, copy.copy(tune_config or tune.TuneConfig()), run_config
        self._gpus, self._actor = gpus, {"num_gpus": 1, "num_cpus": 0, "max_concurrency": 64} | (actor_options or {})
        self._rest = (capacity, device, self._actor, None if by is None else tuple(by), seed, threads, measure)
        self.report: list[dict[str, Any]] | None = None  # of each GPU, after fit

    def fit(self) -> tune.ResultGrid:
        """Runs the search. Returns what Tuner.fit does."""
        from .placement import Placement

        if not ray.is_initialized():
            ray.init()
        gpus = self._gpus if self._gpus is not None else int(ray.cluster_resources().get("GPU", 0))
        if gpus < 1:
            raise ValueError("the cluster has no GPU; expected one, or gpus= where they come later")
        if self._tune.max_concurrent_trials is None:
            self._tune.max_concurrent_trials = _TRIALS_PER_GPU * gpus
        self._tune.reuse_actors = True
        capacity, device, options, by, seed, threads, measure = self._rest
        placement = ray.remote(Placement).options(num_cpus=0, resources={_HEAD: 0.001}).remote(
            self._step_fn, gpus, capacity, device, options, by, seed, threads, measure)
        try:
            proxy = type("Trial", (TrialProxy,), {"placement": placement, "iterations": self._iterations, "report_every": self._report_every,
                                                  "save_every": self._save_every})
            wanted = tune.with_resources(proxy, PlacementGroupFactory([{"CPU": 0.001, _HEAD: 0.001}]))
            run = copy.copy(self._run or tune.RunConfig())
            run.callbacks = [*(run.callbacks or ()), _Ends(placement)]
            found = tune.Tuner(wanted, param_space=self._space, tune_config=self._tune, run_config=run).fit()
            self.report = ray.get(placement.report.remote())
            return found
        finally:
            ray.kill(placement)


class _Ends(tune.Callback):  # type: ignore[misc, unused-ignore]
    """Tells which trials have ended: Tune keeps their processes for others, and says nothing to them."""

    def __init__(self, placement: Any) -> None:
        self._placement = placement

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._placement.ended.remote(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._placement.ended.remote(trial.trial_id)
