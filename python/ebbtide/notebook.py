"""Results as notebooks show them: a chart and a table in HTML that needs nothing beside it, no script and no network.

Colours come from the page where it has them, so that light and dark notebooks both work.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

_WIDTH, _HEIGHT = 640, 150
_COLORS = ("#3b6fd4", "#e6953a", "#2f9f7a", "#8864cf", "#d6577c", "#7d8799")
_GOOD, _BAD, _SOFT = "#1d8a57", "#c0392b", "#7d8799"
_CELL = "padding:2px 14px 2px 0;border:0;text-align:left;background:none;font-size:13px"


def render(fields: dict[str, Any], table: str) -> str:
    """`fields` are a result's own, `table` is its repr, which is folded away below."""
    parts = [_head(fields), *_charts(fields), _figures(fields),
             f"<details><summary style='cursor:pointer;color:{_SOFT}'>table</summary><pre style='font-size:12px;line-height:1.3'>"
             f"{html.escape(table)}</pre></details>"]
    return f"<div style='font:13px/1.45 system-ui,sans-serif;max-width:{_WIDTH + 20}px'>{''.join(parts)}</div>"


def shown(name: str, value: Any) -> str:
    """A value in words: a field's name tells its unit."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("bytes"):
        size, unit = float(value), 0
        while abs(size) >= 1024 and unit < 4:
            size, unit = size / 1024, unit + 1
        return f"{value} B" if unit == 0 else f"{size:.2f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"
    if isinstance(value, (int, float)) and name.endswith("_ns"):
        return f"{value / 1e9:.3f} s" if value >= 1e9 else f"{value / 1e6:.3f} ms" if value >= 1e6 else f"{value / 1e3:.1f} µs"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(name: str) -> str:
    return name.removesuffix("_bytes").removesuffix("_ns").replace("_", " ")


def _head(fields: dict[str, Any]) -> str:
    verdict = ""
    for name, yes, no in (("fits", "fits", "does not fit"), ("feasible", "feasible", "infeasible"), ("valid", "valid", "not valid")):
        if isinstance(fields.get(name), bool):
            verdict = f" <b style='color:{_GOOD if fields[name] else _BAD}'>{yes if fields[name] else no}</b>"
            break
    meta = fields.get("meta") or {}
    known = [("batch", meta.get("batch_size") or fields.get("batch_size")), ("optimizer", meta.get("optimizer")), ("dtype", fields.get("dtype")),
             ("GPU", fields.get("gpu")), ("policy", fields.get("policy"))]
    facts = " · ".join(f"{label} {html.escape(str(value))}" for label, value in known if value)
    title = html.escape(str(fields.get("model") or fields.get("name") or fields.get("command") or "step"))
    return f"<div><b style='font-size:14px'>{title}</b>{verdict}</div><div style='color:{_SOFT}'>{facts}</div>"


def _charts(fields: dict[str, Any]) -> Iterable[str]:
    for name, line in (("allocated_over_time", "reserved_over_time"), ("live_bytes", None)):
        values = fields.get(name)
        if isinstance(values, list) and len(values) > 1:
            yield _area(values, fields.get(line) if line else None, _words(name))
    breakdown = fields.get("breakdown") or fields.get("bytes_by_kind")
    if isinstance(breakdown, dict) and breakdown:
        yield _bars([(name, value, shown("bytes", value)) for name, value in sorted(breakdown.items(), key=lambda item: -item[1]) if value > 0])
    for listed, label, measure in (("gpus", "gpu", "max_batch_safe"), ("policies", "policy", "time_ns"), ("policies", "policy", "makespan_s"),
                                   ("pareto", "budget_bytes", "time_ns"),
                                   ("jobs", "model", "iterations_per_second"), ("jobs", "name", "iterations_per_second")):
        value = fields.get(listed)
        entries = value if isinstance(value, list) else []  # elsewhere a number of them
        rows = [row for row in entries if isinstance(row, dict) and label in row and isinstance(row.get(measure), (int, float))]
        if rows:
            yield f"<div style='color:{_SOFT};margin-top:6px'>{_words(measure)} by {_words(label)}</div>"
            yield _bars([(shown(label, row[label]), row[measure], shown(measure, row[measure])) for row in rows])
    compared = [(name, fields[name]) for name in (
        "plain_peak_bytes", "budget_bytes", "capacity_bytes", "peak_bytes", "peak_reserved_bytes", "peak_allocated_bytes", "live_peak_bytes")
        if isinstance(fields.get(name), (int, float))]
    if len(compared) > 1 and not fields.get("breakdown"):
        yield _bars([(_words(name), value, shown(name, value)) for name, value in compared])


def _area(values: Sequence[float], line: Sequence[float] | None, label: str) -> str:
    most = max(max(values), max(line) if line else 0, 1)
    left, top = 72, 8
    step = (_WIDTH - left) / len(values)

    def y(value: float) -> float:
        return _HEIGHT - (_HEIGHT - top) * value / most

    def path(numbers: Sequence[float]) -> str:
        return "".join(f"L{left + i * step:.1f} {y(v):.1f}L{left + (i + 1) * step:.1f} {y(v):.1f}" for i, v in enumerate(numbers))

    grid = "".join(f"<line x1='{left}' x2='{_WIDTH}' y1='{y(most * k / 4):.1f}' y2='{y(most * k / 4):.1f}' stroke='{_SOFT}' stroke-opacity='.25'/>"
                   f"<text x='{left - 6}' y='{y(most * k / 4) + 4:.1f}' text-anchor='end' font-size='11' fill='{_SOFT}'>"
                   f"{shown('bytes', round(most * k / 4))}</text>" for k in range(5))
    above = f"<path d='M{left} {y(line[0]):.1f}{path(line)}' fill='none' stroke='currentColor' stroke-width='1.2'/>" if line else ""
    return (f"<svg role='img' aria-label='{html.escape(label)}' viewBox='0 0 {_WIDTH} {_HEIGHT + 4}' width='100%' style='display:block;margin:6px 0'>{grid}"
            f"<path d='M{left} {_HEIGHT}{path(values)}L{_WIDTH} {_HEIGHT}Z' fill='{_COLORS[2]}'/>{above}</svg>")


def _bars(rows: Sequence[tuple[str, float, str]]) -> str:
    most = max((value for _, value, _ in rows), default=0) or 1
    lines = "".join(
        f"<tr style='background:none'><td style='{_CELL}'>{html.escape(label)}</td><td style='{_CELL};text-align:right;white-space:nowrap'>{words}</td>"
        f"<td style='{_CELL};width:55%'><div style='height:9px;border-radius:3px;background:{_COLORS[i % len(_COLORS)]};"
        f"width:{max(0.3, 100 * value / most):.1f}%'></div></td></tr>" for i, (label, value, words) in enumerate(rows))
    return f"<table style='width:100%;border-collapse:collapse;margin:4px 0'>{lines}</table>"


def _figures(fields: dict[str, Any]) -> str:
    left_out = ("schema_version", "fits", "feasible", "valid")
    rows = [(_words(name), shown(name, value)) for name, value in fields.items()
            if isinstance(value, (int, float, bool)) and name not in left_out]
    cells = "".join(f"<tr style='background:none'><td style='{_CELL}'>{html.escape(name)}</td>"
                    f"<td style='{_CELL};text-align:right'>{html.escape(text)}</td></tr>" for name, text in rows)
    return f"<details><summary style='cursor:pointer;color:{_SOFT}'>figures</summary><table style='border-collapse:collapse'>{cells}</table></details>"
