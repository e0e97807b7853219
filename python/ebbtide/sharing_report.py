"""What the jobs of an ebbtide.Shared did together."""

import json

from .step_cache import write_text
from .step_report import _bytes


def _overlapped(jobs):
    """Of spans, job by job, each in order: how many have a moment in common with one of another job."""
    marked = set()
    events = sorted((begin, end, number, place) for number, spans in enumerate(jobs) for place, (begin, end) in enumerate(spans))
    open_spans = []
    for begin, end, number, place in events:
        open_spans = [span for span in open_spans if span[0] > begin]
        for other_end, other, other_place in open_spans:
            if other != number:
                marked |= {(number, place), (other, other_place)}
        open_spans.append((end, number, place))
    return len(marked)


class SharedReport:
    """Has a table as repr; `to_dict()` has raw bytes and nanoseconds."""

    def __init__(self, capacity, pool, jobs, seconds):
        if pool is None:
            raise RuntimeError("nothing has run yet")
        self._fields = {
            "schema_version": 1, "capacity_bytes": capacity, "peak_bytes": pool.held_peak, "seconds": seconds,
            "groups": sum(len(job.groups_ns) for job in jobs), "overlapped_groups": _overlapped([list(job.groups_ns) for job in jobs]),
            "jobs": [{
                "name": job.name, "iterations": job.iterations, "iterations_per_second": job.iterations / job.seconds if job.seconds else 0.0,
                "wait_for_turn_ns": job.waited_ns, "alone_ns": job.alone_ns, "state_bytes": job.execution.engine.state_bytes if job.execution else None,
                "transient_bytes": job.execution.engine.height if job.execution else None,
                "error": None if job.error is None else str(job.error),
            } for job in jobs],
        }

    def to_dict(self):
        return json.loads(json.dumps(self._fields))

    def to_json(self):
        return json.dumps(self._fields, indent=2)

    def save(self, path):
        """By its name: .json the fields, .txt the table."""
        path = str(path)
        if not path.endswith((".json", ".txt")):
            raise ValueError(f"{path}: expected a name that ends in .json, .txt")
        write_text(path, self.to_json() + "\n" if path.endswith(".json") else repr(self))

    def __repr__(self):
        f = self._fields
        rows = [("job", "iterations", "per second", "waiting", "state", "beside it")]
        for job in f["jobs"]:
            share = job["wait_for_turn_ns"] / 1e9 / f["seconds"] if f["seconds"] else 0
            rows.append((job["name"], str(job["iterations"]), f"{job['iterations_per_second']:.2f}", f"{share:.0%}", _bytes(job["state_bytes"]),
                         _bytes(job["transient_bytes"])))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]) for row in rows]
        head = (f"capacity {_bytes(f['capacity_bytes'])}, at most {_bytes(f['peak_bytes'])} in use; {f['seconds']:.2f} s; "
                f"{f['overlapped_groups']} of {f['groups']} groups ran beside another job's")
        return "\n".join([head, *lines]) + "\n"
