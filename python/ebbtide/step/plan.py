"""Plans for captured steps, made in this process and kept on disk by what they were asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any

from .. import native
from ..arguments import shown_bytes
from ..errors import BudgetError
from ..files import cache_folder, read_json, write_json


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What a plan is asked for; the same names as in native.plan, which says what each means."""

    budget: int | str  # bytes, or a text as --budget takes it
    policy: str = "home"
    link: float = 0  # bytes per second each way
    gpu: str = "a100-40gb"  # whose times count where the graph has none
    swap_state: bool = False


class Planned:
    """A plan, the graph that it is for, and `said`, what `ebbtide plan --json` prints."""

    def __init__(self, graph: native.Graph, plan: native.Plan, said: dict[str, Any]) -> None:
        self.graph, self.plan, self.said = graph, plan, said


def make_plan(graph: dict[str, Any], options: PlanOptions) -> Planned:
    """Raises BudgetError where no plan keeps the budget."""
    text = json.dumps(graph, separators=(",", ":"), allow_nan=False)
    planner = os.path.getmtime(native.library_path())  # another build may plan otherwise
    asked = [text, dataclasses.astuple(options), planner]
    path = cache_folder() / "plans" / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}.json"
    step = native.Graph(text, graph["name"])
    kept = read_json(path)
    if kept is None:
        made = native.plan(step, bound=False, seed=1, **{
            field.name: getattr(options, field.name) for field in dataclasses.fields(options)})
        kept = {"said": made.to_dict(), "plan": made.plan.to_json() if made.plan else None}
        write_json(path, kept)
    said = kept["said"]
    if not said["feasible"]:
        smallest = said["minimum_budget_bytes"]
        raise BudgetError(
            f"budget {shown_bytes(said['budget_bytes'])}: {options.policy} finds no plan for {graph['name']}; the smallest budget that works is "
            f"{shown_bytes(smallest)}" + (" (policy home)" if options.policy != "home" else "")
            + f", without a plan the step takes {shown_bytes(said['plain_peak_bytes'])}", smallest,
        )
    return Planned(step, native.Plan(kept["plan"]), said)
