"""Figures of the benchmark `growth`."""

from __future__ import annotations

from typing import Any

import growth


def _run(path: str, layers: int, seconds: float) -> dict[str, Any]:
    stages = {"load": 1.0, "lower": seconds - 1}
    took = {"seconds": seconds, "cpu_seconds": seconds / 2, "stages": stages}
    return {"path": path, "layers": layers, "nodes": 10 * layers, "partitions": layers, **took}


def test_growth_is_against_a_third() -> None:
    """Medians of rounds, by path; the first path's is the figure."""
    seconds = {5: 2.0, 10: 4.0, 20: 7.0, 30: 10.0}
    runs = [_run("fast", n, s) for n, s in seconds.items()]
    runs += [_run("fast", 10, 5.0), _run("fast", 10, 90.0)]
    runs += [_run("stock", n, 2.0 * n) for n in seconds]
    found = growth.figures("//:p", runs, ["fast", "stock"], sorted(seconds))
    assert found["growth"] == 2.0
    ratios = {
        path: (of["layers"], of["against"], of["seconds"], of["cpu_seconds"])
        for path, of in found["growth_by_path"].items()
    }
    assert ratios == {"fast": (30, 10, 2.0, 2.0), "stock": (30, 10, 3.0, 3.0)}
    assert growth.table(found["lowerings"]).splitlines()[:4] == [
        "| path | layers | nodes | partitions | load | lower | all | CPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| fast | 5 | 50 | 5 | 1.0 | 1.0 | 2.0 | 1.0 |",
        "| fast | 10 | 100 | 10 | 1.0 | 4.0 | 5.0 | 2.5 |",
    ]


def test_one_size_does_not_grow() -> None:
    """A model that can't be cut."""
    found = growth.figures("//:p", [_run("fast", 0, 3.0)], ["fast"], [0])
    assert found["growth"] is None
    assert "| fast | all |" in growth.table(found["lowerings"])


def test_the_functions_that_time_is_spent_under() -> None:
    """Without frames, imported modules and functions that only call one other."""
    run = ("/x/etlower/lower.py", 1, "run")
    wrapper = ("/x/site-packages/torch/a.py", 5, "wrapper")
    work = ("/x/site-packages/torch/b.py", 7, "work")
    detail = ("~", 0, "<built-in method sorted>")
    module = ("/x/site-packages/torch/b.py", 1, "<module>")
    stats = {
        run: (1, 1, 0.5, 10.0, {}),
        wrapper: (1, 1, 0.01, 9.0, {run: (1, 1, 0.01, 9.0)}),
        work: (2, 2, 7.49, 8.99, {wrapper: (2, 2, 7.49, 8.99)}),
        detail: (4, 4, 1.5, 1.5, {work: (4, 4, 1.5, 1.5)}),
        module: (1, 1, 0.5, 0.5, {run: (1, 1, 0.5, 0.5)}),
    }
    found = growth.top(stats)
    assert [one["function"] for one in found] == ["torch/b.py:7 work", "<built-in method sorted>"]
    assert found[0] == {
        "function": "torch/b.py:7 work",
        "share": 0.899,
        "seconds": 8.99,
        "own": 7.49,
        "calls": 2,
    }
    assert len(growth.top(stats, most=1)) == 1
