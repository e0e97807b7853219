"""What a step took, beside what its plan predicted."""

import json

from .step_cache import write_text


class Report:
    """Has a table as repr; `to_dict()` has raw bytes and nanoseconds."""

    def __init__(self, prepared):
        if prepared is None or prepared.last is None:
            raise RuntimeError("no step has been taken yet")
        self._prepared = prepared
        said, last = prepared.planned.said, {k: v for k, v in prepared.last.items() if k != "step_time_ns"}
        self._fields = {
            "schema_version": 1, "policy": said["policy"], "budget_bytes": prepared.step._capacity, "steps": prepared.steps,
        } | last | {
            "plain_peak_bytes": said["plain_peak_bytes"], "plain_time_ns": said["plain_time_ns"],
            "predicted": {name: said[name] for name in (
                "time_ns", "peak_bytes", "recompute_ns", "wait_for_memory_ns", "wait_for_data_ns", "drain_ns", "copied_out_bytes",
                "copied_in_bytes") if name in said},
        }

    def to_dict(self):
        return json.loads(json.dumps(self._fields))

    def to_json(self):
        return json.dumps(self._fields, indent=2)

    def save(self, path):
        """By its name: .json the fields, .trace.json the last step's timeline for Perfetto, .html a page of it, .txt the table."""
        path = str(path)
        made = {".trace.json": lambda: self._prepared.engine.trace(), ".json": lambda: self.to_json() + "\n",
                ".html": lambda: self._prepared.engine.page(), ".txt": self.__repr__}
        kind = next((suffix for suffix in made if path.endswith(suffix)), None)
        if kind is None:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(made)}")
        write_text(path, made[kind]())

    def __repr__(self):
        f, p = self._fields, self._fields["predicted"]
        rows = [("", "measured", "predicted"), ("budget", _bytes(f["budget_bytes"]), "")]
        rows += [(label, _bytes(f[name]), _bytes(p.get(name))) for label, name in (
            ("peak", "peak_bytes"), ("copied to the host", "copied_out_bytes"), ("copied back", "copied_in_bytes"))]
        rows += [(label, _time(f[name]), _time(p.get(name))) for label, name in (
            ("step", "time_ns"), ("recomputing", "recompute_ns"), ("waiting for memory", "wait_for_memory_ns"),
            ("waiting for data", "wait_for_data_ns"), ("waiting at the end", "drain_ns"))]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows]
        return "\n".join([f"policy {f['policy']}, {f['steps']} steps; without a plan {_bytes(f['plain_peak_bytes'])}", *lines]) + "\n"


def _bytes(size):
    if size is None:
        return ""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024


def _time(nanoseconds):
    return "" if nanoseconds is None else f"{nanoseconds / 1e6:.2f} ms"
