"""Figures of the benchmark `units`."""

from __future__ import annotations

import math

import pytest
import units


def _run(without: str, seconds: float, number: int = 0, sha256: str = "a") -> dict[str, object]:
    return {"round": number, "without": without, "cpu_seconds": seconds, "sha256": sha256}


def _rounds(without: str, *seconds: float) -> list[dict[str, object]]:
    return [_run(without, each, number) for number, each in enumerate(seconds)]


def test_the_median_counts() -> None:
    """Of the differences within a round; a unit's share is of the time without it."""
    runs = [_run(units.NONE, 40.0), *_rounds(units.ALL, 8.0, 7.0, 12.0)]
    runs += _rounds("recompile", 10.0, 20.0, 13.0)
    figures = units.figures(runs)
    assert figures["units"] == {"recompile": {"seconds": 2.0, "share": 0.2}}
    assert (figures["cpu_seconds"], figures["stock_cpu_seconds"]) == (8.0, 40.0)
    assert figures["same_bytes"]
    assert not units.figures([*runs, _run("recompile", 10.0, 1, "b")])["same_bytes"]


def test_what_saves_much_is_measured_once() -> None:
    runs = [_run(units.NONE, 40.0), _run(units.ALL, 8.0)]
    runs += [_run("recompile", 9.5), _run("hqq", 8.8), _run("create_arg", 7.9)]
    assert units.unclear(runs) == ["create_arg", "hqq"]


def test_noise() -> None:
    """The standard error of what units save; what saves less than twice of it is named."""
    quiet = [_run(units.NONE, 40.0), *_rounds(units.ALL, 8.0, 9.0)]
    models = {
        "one": units.figures(
            [*quiet, *_rounds("hqq", 8.5, 10.5), *_rounds("recompile", 11.0, 13.0)]
        )
    }
    assert models["one"]["noise_seconds"] == pytest.approx((math.pi / 8) ** 0.5)
    assert units.of_no_use(models) == ["hqq"]
    models["other"] = units.figures([*quiet, *_rounds("hqq", 20.0, 21.0)])
    assert units.of_no_use(models) == []
    single = units.figures([_run(units.NONE, 40.0), _run(units.ALL, 8.0)])
    assert single["noise_seconds"] is None
    assert "| noise | ? |  |" in units.table({"one": single})


def test_table_begins_with_the_largest_share() -> None:
    models = {
        name: units.figures(
            [
                _run(units.ALL, 8.0),
                _run(units.NONE, 40.0),
                _run("recompile", recompile),
                _run("create_arg", 10.0),
            ]
        )
        for name, recompile in (("first", 16.0), ("second", 9.0))
    }
    assert units.table(models).splitlines() == [
        "| unit | first, s | share | second, s | share |",
        "| --- | --- | --- | --- | --- |",
        "| `recompile` | 8.00 | 50.0% | 1.00 | 11.1% |",
        "| `create_arg` | 2.00 | 20.0% | 2.00 | 20.0% |",
        "| noise | ? |  | ? |  |",
        "| with all units | 8.00 |  | 8.00 |  |",
        "| with no unit | 40.00 |  | 40.00 |  |",
    ]


def test_a_model_of_one_unit_has_no_figures_of_others() -> None:
    runs = [_run(units.ALL, 8.0), _run(units.NONE, 40.0), _run("hqq", 10.0)]
    models = {
        "all": units.figures([*runs, _run("recompile", 9.0)]),
        "one": units.figures(runs),
    }
    assert units.of_no_use(models) == []
    assert "| `recompile` | 1.00 | 11.1% | – | – |" in units.table(models).splitlines()
