"""What a step took, beside what its plan predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..arguments import shown_bytes
from ..reports import ReportBase, aligned

if TYPE_CHECKING:
    from .prepared import Prepared


class Report(ReportBase):
    """Of the last step that a Step has taken."""

    def __init__(self, prepared: Prepared | None) -> None:
        if prepared is None or prepared.last is None:
            raise RuntimeError("no step has been taken yet")
        self._prepared = prepared
        said, last = prepared.planned.said, {k: v for k, v in prepared.last.items() if k != "step_time_ns"}
        super().__init__({
            "policy": said["policy"], "budget_bytes": prepared.step._capacity, "steps": prepared.steps,
        } | last | {
            **({"fused": prepared.captured.fused} if prepared.captured.fused else {}),
            "plain_peak_bytes": said["plain_peak_bytes"], "plain_time_ns": said["plain_time_ns"],
            "predicted": {name: said[name] for name in (
                "time_ns", "peak_bytes", "recompute_ns", "wait_for_memory_ns", "wait_for_data_ns", "drain_ns", "copied_out_bytes",
                "copied_in_bytes") if name in said},
        })

    def _more_files(self) -> dict[str, Callable[[], str]]:
        """.trace.json: the last step's timeline for Perfetto; .html: a page of it."""
        return {".trace.json": self._prepared.engine.trace, ".html": self._prepared.engine.page}

    def __repr__(self) -> str:
        f, p = self._fields, self._fields["predicted"]
        rows = [("", "measured", "predicted"), ("budget", shown_bytes(f["budget_bytes"]), "")]
        rows += [(label, shown_bytes(f[name]), shown_bytes(p.get(name))) for label, name in (
            ("peak", "peak_bytes"), ("copied to the host", "copied_out_bytes"), ("copied back", "copied_in_bytes"))]
        rows += [(label, _time(f[name]), _time(p.get(name))) for label, name in (
            ("step", "time_ns"), ("recomputing", "recompute_ns"), ("waiting for memory", "wait_for_memory_ns"),
            ("waiting for data", "wait_for_data_ns"), ("waiting at the end", "drain_ns"))]
        if self._prepared.step._options.cuda_graphs:  # none, too: what could not be captured runs op by op
            rows.append(("CUDA graphs (ops in them)", f"{f['graphs']} ({f['graph_ops']})", ""))
        if fused := f.get("fused"):
            rows.append(("ops (captured, fused)", str(fused["captured_ops"]), str(fused["ops"])))
            rows.append(("bytes of results (the same)", shown_bytes(fused["captured_made_bytes"]), shown_bytes(fused["made_bytes"])))
            if "time_ns" in fused:
                rows.append(("ops alone (the same)", _time(fused["captured_time_ns"]), _time(fused["time_ns"])))
            if fused.get("captured_not_measured") or fused.get("not_measured"):
                rows.append(("ops not measured (the same)", str(fused["captured_not_measured"]), str(fused["not_measured"])))
        return "\n".join([f"policy {f['policy']}, {f['steps']} steps; without a plan {shown_bytes(f['plain_peak_bytes'])}", *aligned(rows)]) + "\n"


def _time(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e6:.2f} ms"
