"""Lanes, plans and turns of the jobs of an ebbtide.Shared: what the arranger of `ebbtide share` decides for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import native
from ..arguments import ASSUMED_LINKS, shown_bytes
from ..errors import BudgetError

if TYPE_CHECKING:
    from ..step.prepared import Prepared
    from ..step.step import Step
    from .job import Job

_ALIGNMENT = 512
ANY_LANE = -1


class Arranged(NamedTuple):
    """How a job runs: by `plan`, for `graph`, placed with `height_limit`; `height` is that of an iteration beside its state."""

    graph: native.Graph
    plan: native.Plan
    lane: int
    height_limit: int
    state: int
    height: int

    @property
    def room(self) -> int:
        """What an iteration of the job may take of its lane."""
        return max(self.height_limit, self.height)


class Arranger:
    """For jobs on one device. Plans that it has made it keeps."""

    def __init__(self, capacity: int, groups: int, step: Step) -> None:
        on_cpu = step._device == "cpu"
        self.capacity = capacity
        self._native = native.SharedArranger(
            capacity, groups, float(step._link or ASSUMED_LINKS[step._device[:4]]),
            "" if on_cpu else torch.cuda.get_device_name(step._device),
            min(torch.get_num_threads() / len(os.sched_getaffinity(0)), 1.0) if on_cpu else 1.0, torch.get_num_threads())

    def arrange(self, prepared: Mapping[Job, Prepared]) -> tuple[dict[Job, Arranged], list[Job], bool]:
        """How each job runs; the jobs in the order in which they join; whether iterations start at the ebb of others. Raises
        BudgetError where they do not fit."""
        jobs = list(prepared)
        said = self._native.arrange([_member(job, prepared[job]) for job in jobs])
        if not said["fits"]:
            states = sum(_up(each["state_bytes"]) for each in said["jobs"])
            heights = [_up(each["height_bytes"]) for each in said["jobs"]]
            raise BudgetError(
                f"capacity {shown_bytes(self.capacity)}: the state of {len(jobs)} jobs takes {shown_bytes(states)}, an iteration of "
                f"{jobs[heights.index(max(heights))].name} {shown_bytes(max(heights))} beside it; without further plans the smallest "
                f"capacity that works is {shown_bytes(said['needed_bytes'])}", said["needed_bytes"])
        arranged = {job: _arranged(prepared[job], each, each["lane"]) for job, each in zip(jobs, said["jobs"])}
        return arranged, [jobs[number] for number in said["join_order"]], said["start_at_ebb"]

    def within(self, job: Job, prepared: Prepared, room: int, lane: int) -> Arranged | None:
        """By its own plan, or one with which it takes no more than `room` of a lane. None: there is none."""
        said = self._native.within(_member(job, prepared), room)
        return None if said is None else _arranged(prepared, said, lane)

    def beside(self, job: Job, prepared: Prepared, others: Sequence[Arranged]) -> Iterator[Arranged]:
        """The ways, best first, in which it might find room beside `others`, which are as they are."""
        widest = self.within(job, prepared, self.capacity, ANY_LANE)
        if widest is None:
            return
        free = self.capacity - _up(widest.state) - sum(_up(other.state) for other in others)
        for room in sorted({free, *(other.room for other in others if other.room < free)}, reverse=True):
            arranged = self.within(job, prepared, room, ANY_LANE)
            if arranged is not None:
                yield arranged


def _member(job: Job, prepared: Prepared) -> tuple[str, native.Graph, native.Plan, str, int, int]:
    planned = prepared.planned
    return job.name, planned.graph, planned.plan, job.step._options.policy, job.weight, job.priority


def own_plan_of(prepared: Prepared, lane: int) -> Arranged:
    """By the step's own plan, placed as low as it goes, in a lane that may turn out to have the room."""
    return Arranged(prepared.planned.graph, prepared.planned.plan, lane, 0, 0, 0)


def _arranged(prepared: Prepared, said: dict[str, Any], lane: int) -> Arranged:
    plan = prepared.planned.plan if said["plan"] is None else said["plan"]
    return Arranged(prepared.planned.graph, plan, lane, said["height_limit"], said["state_bytes"], said["height_bytes"])


def _up(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
