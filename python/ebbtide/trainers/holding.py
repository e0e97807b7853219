"""A budget over a loop that is not ours: the model compiled in place, or ebbtide.budget in force from the loop's beginning to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..arguments import budget_text, shown_bytes
from ..budget.budget import Budget
from ..compile.backend import reports

WAYS = ("compile", "budget")


class Holding:
    """`begin` with the model before the loop, `end` behind it; each may be called twice. `figures()` in between and afterwards."""

    def __init__(self, budget: int | str | None, way: str = "compile", *, policy: str = "home", link: float | str | None = None,
                 pieces: int = 1) -> None:
        if way not in WAYS:
            raise ValueError(f"way {way!r}: expected {' or '.join(map(repr, WAYS))}")
        if way == "budget":
            if budget is None:
                raise ValueError("budget None: expected bytes or a text as '4GiB' with way='budget'")
            given = [name for name, value, usual in (("policy", policy, "home"), ("link", link, None), ("pieces", pieces, 1)) if value != usual]
            if given:
                raise ValueError(f"{given[0]}: of no use with way='budget', which has no plan; expected way='compile' with it")
            Budget(budget, "cpu")  # says at once what is wrong with the text
        elif budget is not None:
            budget_text(budget)
        self.way = way
        self._limit = budget
        self._options: dict[str, Any] = {"budget": budget, "policy": policy, "link": link, "pieces": pieces}
        self._module: torch.nn.Module | None = None
        self._budget: Budget | None = None
        self._last: dict[str, float] = {}

    def begin(self, module: torch.nn.Module) -> None:
        """`module` is what the loop calls, or what that calls: all that is compiled runs within the budget."""
        self.end()
        self._last = {}
        if self.way == "budget":
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            assert self._limit is not None
            budget = Budget(self._limit, device)
            budget.__enter__()
            self._budget = budget
            return
        if getattr(module, "_orig_mod", None) is not None or module._compiled_call_impl is not None:
            raise ValueError("the model is compiled already; expected one that is not, as it is compiled with the backend 'ebbtide' here")
        module.compile(backend="ebbtide", options=self._options)
        self._module = module

    def end(self) -> None:
        """The model is as it was before."""
        if self._module is not None or self._budget is not None:
            self._last = self.figures()
        if self._budget is not None:
            budget, self._budget = self._budget, None
            budget.__exit__(None, None, None)
        if self._module is not None:
            self._module._compiled_call_impl = None
            self._module = None

    @property
    def begun(self) -> bool:
        return self._module is not None or self._budget is not None

    def figures(self) -> dict[str, float]:
        """Of the last iteration where the model is compiled, with what was predicted for it; since the beginning with way='budget'. Empty where
        nothing has run yet."""
        if self._budget is not None:
            said = self._budget.report()
            names = ["budget_bytes", "peak_bytes", "copied_out_bytes", "copied_in_bytes", *(["short_of_bytes"] if said["short_of_bytes"] else [])]
            return {name: said[name] for name in names}
        if self._module is None:
            return dict(self._last)
        return of_graphs([report for report in reports(self._options) if report["trains"]])


def of_graphs(graphs: list[dict[str, Any]]) -> dict[str, float]:
    """One set of figures for all graphs of a model: copies and times add up, the peak is that of the largest."""
    if not graphs:
        return {}
    out: dict[str, float] = {"graphs": len(graphs)}
    for name, of in (("budget_bytes", max), ("plain_peak_bytes", max), ("peak_bytes", max), ("copied_out_bytes", sum), ("copied_in_bytes", sum),
                     ("recompute_ns", sum), ("time_ns", sum), ("plain_time_ns", sum)):
        values = [graph[name] for graph in graphs if name in graph]
        if values:
            out[name] = of(values)
    for name, of in (("peak_bytes", max), ("copied_out_bytes", sum), ("copied_in_bytes", sum), ("time_ns", sum)):
        values = [graph["predicted"][name] for graph in graphs if name in graph["predicted"]]
        if values:
            out[f"predicted_{name}"] = of(values)
    return out


def shown(figures: Mapping[str, float]) -> str:
    """One line for people."""
    if not figures:
        return "nothing has run within the budget"
    parts = [f"peak {shown_bytes(figures['peak_bytes'])} of {shown_bytes(figures['budget_bytes'])}"]
    if "predicted_peak_bytes" in figures:
        parts[0] += f" (predicted {shown_bytes(figures['predicted_peak_bytes'])})"
    if "short_of_bytes" in figures:
        parts.append(f"{shown_bytes(figures['short_of_bytes'])} more were needed")
    parts.append(f"{shown_bytes(figures['copied_out_bytes'])} to the host and {shown_bytes(figures['copied_in_bytes'])} back")
    if "time_ns" in figures:
        parts.append(f"{figures['time_ns'] / 1e6:.1f} ms forward and backward (predicted {figures.get('predicted_time_ns', 0) / 1e6:.1f} ms)")
    return "; ".join(parts)
