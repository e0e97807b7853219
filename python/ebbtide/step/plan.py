"""Plans for captured steps, made in this process and kept on disk by what they were asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from typing import Any

from .. import native
from ..arguments import shown_bytes
from ..errors import BudgetError, CaptureError
from ..files import cache_folder, keep, read_kept


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What a plan is asked for; the same names as in native.plan, which says what each means."""

    budget: int | str  # bytes, or a text as --budget takes it
    policy: str = "home"
    link: float = 0  # bytes per second each way
    gpu: str = "a100-40gb"  # whose times count where the graph has none
    swap_state: bool = False
    reorder: bool = False
    alignment: int = 0  # of every storage; 0: as on a GPU


ALIGNMENTS = {"cpu": 64, "cuda": 0}  # as torch's memory there is aligned


class Planned:
    """A plan, the graph that it is for, and `said`, what `ebbtide plan --json` prints."""

    def __init__(self, graph: native.Graph, plan: native.Plan, said: dict[str, Any]) -> None:
        self.graph, self.plan, self.said = graph, plan, said


def make_plan(graph: dict[str, Any], options: PlanOptions) -> Planned:
    """Raises BudgetError where no plan keeps the budget."""
    try:
        text = json.dumps(graph, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise CaptureError(_not_finite(graph)) from None
    planner = os.path.getmtime(native.library_path())  # another build may plan otherwise
    # Learning rates and the like are given to each step anew: others of them make no other plan.
    asked = [graph | {"scalars": len(graph.get("scalars", ()))}, dataclasses.astuple(options), planner]
    path = cache_folder() / "plans" / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}.json"
    step = native.Graph(text, graph["name"])
    kept = read_kept(path, _is_answer)
    plan = _plan_of(kept)
    if kept is None or (kept["said"]["feasible"] and plan is None):
        made = native.plan(step, bound=False, seed=1, **{
            field.name: getattr(options, field.name) for field in dataclasses.fields(options)})
        kept = {"said": made.to_dict(), "plan": made.plan.to_json() if made.plan else None}
        plan = made.plan
        keep(path, kept)
    said = kept["said"]
    if not said["feasible"]:
        smallest = said["minimum_budget_bytes"]
        raise BudgetError(
            f"budget {shown_bytes(said['budget_bytes'])}: {options.policy} finds no plan for {graph['name']}; the smallest budget that works is "
            f"{shown_bytes(smallest)}" + (" (policy home)" if options.policy != "home" else "")
            + f", without a plan the step takes {shown_bytes(said['plain_peak_bytes'])}", smallest,
        )
    assert plan is not None  # where it is feasible
    return Planned(*plan.in_its_order(step), said)


def _not_finite(graph: dict[str, Any]) -> str:
    """Where a number is that no graph can hold."""

    def first(value: Any) -> float | None:
        if isinstance(value, float):
            return None if math.isfinite(value) else value
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        return next((found for found in map(first, parts) if found is not None), None)

    for number, op in enumerate(graph["ops"]):
        for name, value in op.get("arguments", {}).items():
            if (found := first(value)) is not None:
                where = f"of layer {op['layer']}" if op.get("layer") else f"of the {op['phase']} phase"
                return (f"op {number} ({op['kind']} {where}): {name} is {found}; expected a finite number, as the optimizer's lr, weight_decay "
                        "and others have to be")
    return "the step holds a number that is not finite; expected finite ones"


def _is_answer(kept: Any) -> bool:
    said = kept["said"]
    sizes = [said[name] for name in ("budget_bytes", "minimum_budget_bytes", "plain_peak_bytes")]
    return type(said["feasible"]) is bool and all(type(size) is int for size in sizes) and isinstance(kept["plan"], (str, type(None)))


def _plan_of(kept: Any) -> native.Plan | None:
    """None: there is none, or it cannot be read."""
    try:
        return native.Plan(kept["plan"]) if kept and kept["plan"] else None
    except ValueError:
        return None
