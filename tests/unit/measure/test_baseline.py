"""Figures, what makes one worse, and saved ones. Needs no torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etcli.measure import baseline, benchmark, page
from etcli.measure.baseline import Figure
from etcli.measure.benchmark import show, slower
from etcli.measure.events import by_backend

RESULT: dict[str, Any] = {
    "label": "//m:p",
    "recipe": "//r:int4",
    "machine": {"processor": "a <processor>", "cores": 4},
    "load_seconds": [0.5, 0.1, 0.3, 0.2],
    "cases": {"forward": {"method": "forward", "seconds": [0.004, 0.002, 0.003]}},
    "generation": {
        "prompt_tokens": 64,
        "first_token_seconds": 0.5,
        "token_seconds": [0.02, 0.05, 0.02],
    },
    "memory_bytes": {"loaded": 1_000_000, "run": 2_000_000},
    "file_bytes": 3_000_000,
    "events": {
        "forward": {
            "total_ms": 4.0,
            "operators": [{"name": "add.out", "calls": 2, "ms": 1.0}],
            "delegates": [
                {"backend": "B", "number": 0, "ms": 2.0, "operators": []},
                {
                    "backend": "X",
                    "number": 1,
                    "ms": 0.5,
                    "operators": [{"name": "<conv>", "calls": 3, "ms": 0.4}],
                },
                {
                    "backend": "X",
                    "number": 2,
                    "ms": 0.5,
                    "operators": [{"name": "<conv>", "calls": 1, "ms": 0.4}],
                },
            ],
        }
    },
}


def test_figures() -> None:
    values = {f.name: (round(f.value, 3), f.unit) for f in baseline.figures(RESULT, {})}
    assert values == {
        "load": (200.0, "ms"),
        "load, the first time": (500.0, "ms"),
        "forward": (3.0, "ms"),
        "first token": (500.0, "ms"),
        "reading": (128.0, "tokens/s"),
        "writing": (50.0, "tokens/s"),
        "memory, loaded": (1_000_000, "bytes"),
        "memory, after running": (2_000_000, "bytes"),
        "files": (3_000_000, "bytes"),
    }


def test_what_is_slower() -> None:
    assert Figure("forward", 12.0, "ms", 10.0).slowdown == pytest.approx(1.2)
    assert Figure("writing", 10.0, "tokens/s", 12.0).slowdown == pytest.approx(1.2)
    assert Figure("forward", 12.0, "ms", 0.0).slowdown is None
    assert Figure("forward", 12.0, "ms").slowdown is None
    before = {"forward": 2.0, "writing": 60.0, "files": 1.0, "load, the first time": 1.0}
    assert slower(baseline.figures(RESULT, before), 1.3) == [
        "forward: 3.00 ms, was 2.00 ms: got 1.50 times worse, expected at most 1.3"
    ]
    assert len(slower(baseline.figures(RESULT, before), 1.1)) == 2
    assert slower(baseline.figures(RESULT, {}), 1.1) == []


def test_numbers_for_people() -> None:
    given = [(123.456, "ms"), (1.234, "ms"), (0.01234, "ms"), (41.26, "tokens/s")]
    texts = [Figure("", value, unit).now for value, unit in given]
    assert texts == ["123.5 ms", "1.23 ms", "0.012 ms", "41.26 tokens/s"]
    figure = Figure("", 1_500_000, "bytes", 1_000_000)
    assert (figure.now, figure.was, figure.change) == ("1.5 MB", "1.0 MB", "+50.0%")


def test_delegates_of_one_backend_are_taken_together() -> None:
    assert by_backend(RESULT["events"]["forward"]) == [
        {"backend": "B", "calls": 1, "ms": 2.0, "operators": []},
        {
            "backend": "X",
            "calls": 2,
            "ms": 1.0,
            "operators": [{"name": "<conv>", "calls": 4, "ms": 0.8}],
        },
    ]


def test_a_saved_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"format": 1, "label": "//m:p", "figures": {"load": 1.5}}))
    assert baseline.read(path).figures == {"load": 1.5}
    for text, message in (
        ("{", "b.json is not a saved benchmark: JSONDecodeError"),
        ('{"format": 1, "label": ""}', 'b.json is not a saved benchmark: it has no "figures".'),
        ('{"format": 2, "label": "", "figures": {}}', "b.json: format: got 2, expected 1."),
        (
            '{"format": 1, "label": "", "figures": {"load": "x"}}',
            'b.json is not a saved benchmark: it.figures.load is "x", expected a number.',
        ),
    ):
        path.write_text(text)
        with pytest.raises(BuildError) as caught:
            baseline.read(path)
        assert message in caught.value.what


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    from etcli.console import Printer

    show(RESULT, baseline.figures(RESULT, {"forward": 2.0}), Printer(sys.stdout))
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("forward ")).split() == [
        *("forward", "3.00", "ms", "2.00", "ms", "+50.0%")
    ]
    assert ["<conv>", "4", "0.800", "20.0%"] in [line.split() for line in lines]


def test_a_page(tmp_path: Path) -> None:
    figures = baseline.figures(RESULT, {"forward": 2.0})
    html = page.of(RESULT, figures)
    assert html == page.of(RESULT, figures)
    for text in (
        "a &lt;processor&gt;, 4 cores",
        "&lt;conv&gt;",
        '<td class="n">+50.0%</td>',
        "3 runs: median 3.000 ms (the line), from 2.000 to 4.000 ms.",
        "writing, token by token",
        "2.000 ms (50.0%) in B",
    ):
        assert text in html, text
    # An even number of runs: the plot's median is the table's.
    case = {"forward": {"method": "forward", "seconds": [0.004, 0.002]}}
    even = RESULT | {"cases": case}
    assert "median 3.000 ms" in page.of(even, baseline.figures(even, {}))
    assert "baseline below" not in page.of(RESULT, baseline.figures(RESULT, {}))


def test_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux has it in a file, macOS in a variable of its kernel."""
    assert benchmark.machine()["processor"]
    sysctl = tmp_path / "sysctl"
    sysctl.write_text('#!/bin/sh\n[ "$*" = "-n machdep.cpu.brand_string" ] && echo Apple M9\n')
    sysctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert benchmark.machine()["processor"] == "Apple M9"
    sysctl.unlink()
    assert benchmark.machine()["processor"]
