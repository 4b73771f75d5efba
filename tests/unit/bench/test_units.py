"""Figures of the benchmark `units`."""

from __future__ import annotations

import units


def _run(without: str, seconds: float, sha256: str = "a") -> dict[str, object]:
    return {"without": without, "cpu_seconds": seconds, "sha256": sha256}


def test_the_fastest_round_counts() -> None:
    """A unit's share is of the time that a lowering takes without it."""
    runs = [_run(units.ALL, 8.0), _run(units.NONE, 40.0), _run("merging", 10.0)]
    runs += [_run("merging", 12.0), _run(units.ALL, 9.0)]
    figures = units.figures(runs)
    assert figures["units"] == {"merging": {"seconds": 2.0, "share": 0.2}}
    assert (figures["cpu_seconds"], figures["stock_cpu_seconds"]) == (8.0, 40.0)
    assert figures["same_bytes"]
    assert not units.figures([*runs, _run("merging", 10.0, "b")])["same_bytes"]


def test_table_begins_with_the_largest_share() -> None:
    models = {
        name: units.figures(
            [
                _run(units.ALL, 8.0),
                _run(units.NONE, 40.0),
                _run("codegen", codegen),
                _run("merging", 10.0),
            ]
        )
        for name, codegen in (("first", 16.0), ("second", 9.0))
    }
    assert units.table(models).splitlines() == [
        "| unit | first, s | share | second, s | share |",
        "| --- | --- | --- | --- | --- |",
        "| `codegen` | 8.0 | 50.0% | 1.0 | 11.1% |",
        "| `merging` | 2.0 | 20.0% | 2.0 | 20.0% |",
        "| with all units | 8.0 |  | 8.0 |  |",
        "| with no unit | 40.0 |  | 40.0 |  |",
    ]
