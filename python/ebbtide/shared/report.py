"""What the jobs of an ebbtide.Shared did together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..arguments import shown_bytes
from ..reports import ReportBase, aligned

if TYPE_CHECKING:
    from .. import native
    from .job import Job


def _overlapped(jobs: Sequence[Sequence[tuple[int, int]]]) -> int:
    """Of spans, job by job, each in order: how many have a moment in common with one of another job."""
    marked: set[tuple[int, int]] = set()
    events = sorted((begin, end, number, place) for number, spans in enumerate(jobs) for place, (begin, end) in enumerate(spans))
    open_spans: list[tuple[int, int, int]] = []
    for begin, end, number, place in events:
        open_spans = [span for span in open_spans if span[0] > begin]
        for _, other, other_place in open_spans:
            if other != number:
                marked |= {(number, place), (other, other_place)}
        open_spans.append((end, number, place))
    return len(marked)


class SharedReport(ReportBase):
    """Of all runs of a Shared so far."""

    def __init__(self, capacity: int, pool: native.SharedPool | None, jobs: Sequence[Job], seconds: float) -> None:
        if pool is None:
            raise RuntimeError("nothing has run yet")
        super().__init__({
            "capacity_bytes": capacity, "peak_bytes": pool.held_peak, "seconds": seconds,
            "groups": sum(len(job.groups_ns) for job in jobs), "overlapped_groups": _overlapped([list(job.groups_ns) for job in jobs]),
            "jobs": [{
                "name": job.name, "iterations": job.iterations, "iterations_per_second": job.iterations / job.seconds if job.seconds else 0.0,
                "wait_for_turn_ns": job.waited_ns, "alone_ns": job.alone_ns, "state_bytes": job.execution.engine.state_bytes if job.execution else None,
                "transient_bytes": job.execution.engine.height if job.execution else None,
                "error": None if job.error is None else str(job.error),
            } for job in jobs],
        })

    def __repr__(self) -> str:
        f = self._fields
        rows = [("job", "iterations", "per second", "waiting", "state", "beside it")]
        for job in f["jobs"]:
            share = job["wait_for_turn_ns"] / 1e9 / f["seconds"] if f["seconds"] else 0
            rows.append((job["name"], str(job["iterations"]), f"{job['iterations_per_second']:.2f}", f"{share:.0%}",
                         shown_bytes(job["state_bytes"]), shown_bytes(job["transient_bytes"])))
        head = (f"capacity {shown_bytes(f['capacity_bytes'])}, at most {shown_bytes(f['peak_bytes'])} in use; {f['seconds']:.2f} s; "
                f"{f['overlapped_groups']} of {f['groups']} groups ran beside another job's")
        return "\n".join([head, *aligned(rows)]) + "\n"
