"""Which plans the jobs of an ebbtide.Shared run by: their steps' own, or such as leave the others room where that pays."""

import contextlib
import os

import torch

from . import _core
from .step_arguments import ASSUMED_LINKS
from .step_plan import BudgetError
from .stepping import tell

_TIGHTER = (1.0, 0.97, 0.94, 0.9)  # of what a plan may take, as a lane's placement is not its own
_LOWER = (0.92, 0.75, 0.55)  # of a lane that jobs fill, what they are planned for so that another's groups fit beside theirs


def needs_of(planned, enough=None):
    """Bytes of its state and, with the height of a lane that does, of all else; each worked out once."""
    known = planned.shared_needs
    if enough not in known:
        known[enough] = _core.shared_needs(planned.graph, planned.text, enough)
    return known[enough]


def plan_within(prepared, enough):
    """The step's plan, or one with which it takes no more than `enough` beside its state; the step's own where there is none."""
    planned = prepared.planned
    state, height = needs_of(planned, enough)
    for share in _TIGHTER if height > enough > 0 else ():
        with contextlib.suppress(BudgetError):
            tighter = prepared.step._plan(prepared.graph, state + int(share * enough))
            if needs_of(tighter, enough)[1] <= enough:
                return tighter
    return planned


def plans_together(shared, prepared, enough):
    """By job: a plan. Where the jobs share a lane and fill it, they would alternate; then they are planned for less of it, if the
    simulator finds that all get on faster so, recomputing and copies included."""
    best = {job: plan_within(p, enough) for job, p in prepared.items()}
    heights = [needs_of(planned, enough)[1] for planned in best.values()]
    if max(heights) > enough or sum(heights) <= enough:
        return best
    round_ns, overlap = _rehearse(shared, best, enough)
    for part in _LOWER:
        room = int(part * enough)
        tell(f"planning for {part:.0%} of the room")
        lower = {job: plan_within(p, room) for job, p in prepared.items()}
        if any(needs_of(planned, room)[1] > room for planned in lower.values()):
            break
        lower_round_ns, lower_overlap = _rehearse(shared, lower, enough)
        if lower_round_ns < 0.999 * round_ns or (lower_round_ns <= round_ns and lower_overlap > overlap + 0.05):
            best, round_ns, overlap = lower, lower_round_ns, lower_overlap
    tell("")
    return best


def _rehearse(shared, plans, enough):
    """(time in which each job takes a step, share of the groups that overlap), in the simulator."""
    heights = [needs_of(planned, enough)[1] for planned in plans.values()]
    step = next(iter(plans)).step
    on_cpu = step._device == "cpu"
    return _core.rehearse(
        [(planned.graph, planned.text, job.weight, job.priority) for job, planned in plans.items()], shared.capacity, enough,
        sum(heights) > enough, shared.groups, float(step._link or ASSUMED_LINKS[step._device[:4]]),
        "" if on_cpu else torch.cuda.get_device_name(step._device),
        min(torch.get_num_threads() / len(os.sched_getaffinity(0)), 1.0) if on_cpu else 1.0)
