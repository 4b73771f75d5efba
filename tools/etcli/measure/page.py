"""A benchmark as a page with plots, without references to anything outside of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from etcli.measure import modules
from etcli.measure.baseline import Figure
from etcli.measure.events import by_backend
from etcli.report import page

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
    if written and "device" not in result:
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
        "modules": _modules(events["modules"], total) if "modules" in events else None,
    }


def _modules(of: Mapping[str, Any], total: float) -> dict[str, Any]:
    """Modules as rows of a tree, each with the rows of those in it."""
    rows: dict[str, dict[str, Any]] = {}
    for node in of["tree"]:
        outer, _, name = node["name"].rpartition(".")
        row = _row(name or modules.WHOLE, node["ms"], total)
        row |= {"title": node["name"], "bytes": node["bytes"], "split": node["split_ms"]}
        row["before"] = node.get("before_ms")
        rows[node["name"]] = row
        if node["name"]:
            rows[outer]["rows"].append(row)
    for node in of["tree"]:
        row = rows[node["name"]]
        if row["rows"] and (node["own_ms"] or node["own_bytes"]):
            own = _row(modules.OWN, node["own_ms"], total)
            own |= {"title": node["name"], "bytes": node["own_bytes"], "split": 0.0}
            row["rows"].insert(0, own | {"before": node.get("before_own_ms")})
    rest = {modules.UNKNOWN: of["unknown_ms"], modules.OUTSIDE: of["outside_ms"]}
    return {
        "rows": [rows[""], *(_row(name, ms, total) for name, ms in rest.items() if ms)],
        "compared": any(row["before"] is not None for row in rows.values()),
        "notes": modules.notes(of),
        "slower": [
            {**node, "name": node["name"] or modules.WHOLE} for node in modules.slower(of)[:_MOST]
        ],
    }


def _row(name: str, ms: float, total: float) -> dict[str, Any]:
    share = 100 * ms / total if total else 0.0
    return {
        "name": name,
        "title": "",
        "ms": ms,
        "share": share,
        "length": round(min(share, 100.0), 1),
        "bytes": 0,
        "split": 0.0,
        "before": None,
        "rows": [],
    }
