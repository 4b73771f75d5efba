"""A benchmark as a page with plots, without references to anything outside of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from etreport import page

from etcli.measure.baseline import Figure
from etcli.measure.events import by_backend

# Bars of operators in a plot.
_MOST = 25


def of(result: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """The page.

    Args:
      result: the benchmark.
      figures: its figures, with the baseline's.
    """
    rows = [
        {
            "figure": figure,
            "bars": _bars(figure.value, figure.before),
            "worse": (figure.slowdown or 1.0) > 1.1,
        }
        for figure in figures
    ]
    plots = [
        _plot(title, [1000 * s for s in case["seconds"]]) for title, case in result["cases"].items()
    ]
    written = result.get("generation", {}).get("token_seconds", [])
    if written:
        plots.append(_plot("writing, token by token", [1000 * s for s in written]))
    return page.render(
        "benchmark.html.jinja",
        result=result,
        rows=rows,
        compared=any(figure.before is not None for figure in figures),
        plots=plots,
        events=[_events(title, events) for title, events in result["events"].items()],
    )


def _bars(now: float, before: float | None) -> dict[str, float]:
    """Lengths in per cent, of the longer of both."""
    whole = max(now, before or 0.0)
    parts = {"now": now, "before": before or 0.0}
    return {name: round(100 * value / whole, 1) if whole else 0.0 for name, value in parts.items()}


def _plot(title: str, values: Sequence[float]) -> dict[str, Any]:
    """A bar for each run, with the median as a line; lengths in per cent."""
    most = max(values, default=0.0)
    middle = statistics.median(values) if values else 0.0
    return {
        "title": title,
        "count": len(values),
        "median": middle,
        "least": min(values, default=0.0),
        "most": most,
        "line": round(100 * middle / most, 1) if most else 0.0,
        "bars": [round(100 * value / most, 1) if most else 0.0 for value in values],
        "values": list(values),
    }


def _events(title: str, events: Mapping[str, Any]) -> dict[str, Any]:
    """Operators and delegates as bars of their shares, the slowest first."""
    total = events["total_ms"]
    rows = [
        {**operator, "where": "ExecuTorch's kernels", "kind": "constants"}
        for operator in events["operators"]
    ]
    backends = by_backend(events)
    for backend in backends:
        inner = backend["operators"] or [{**backend, "name": "all of it"}]
        rows += [{**each, "where": backend["backend"], "kind": "weights"} for each in inner]
    rows.sort(key=lambda r: (-r["ms"], r["name"]))
    most = rows[0]["ms"] if rows else 0.0
    for row in rows:
        row["length"] = round(100 * row["ms"] / most, 1) if most else 0.0
        row["share"] = 100 * row["ms"] / total if total else None
    return {
        "title": title,
        "total": total,
        "backends": [{**b, "share": 100 * b["ms"] / total if total else None} for b in backends],
        "rows": rows[:_MOST],
        "rest": len(rows) - _MOST,
    }
