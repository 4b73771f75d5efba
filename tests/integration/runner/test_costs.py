"""Bounds of et_program_test on memory, seconds and instructions, with the real runtime."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etlower import budgets, compare, costs, instructions
from etlower.instructions import Count, count
from etlower.runs import Measured, ProgramRun

from tests.integration.runner.runner_process import PROGRAMS

_VALGRIND = [Path(p) for p in os.environ.get("VALGRIND", "").split() if p.endswith("valgrind.bin")]

counts = pytest.mark.skipif(not _VALGRIND, reason="valgrind is there for Linux on x86_64 only")


def run_of(name: str, work: Path) -> ProgramRun:
    """The run of a program's test."""
    data = PROGRAMS / f"{name}.ptd"
    return ProgramRun(
        PROGRAMS / f"{name}.pte",
        [data] if data.exists() else [],
        PROGRAMS / f"{name}.manifest.json",
        PROGRAMS / f"{name}_model.expected.safetensors",
        [],
        work,
    )


def test_each_bound_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    """A bound that is exceeded fails with figure, bound and what to do; others are printed."""
    words = ["--label=//m:test", f"--program={PROGRAMS}/methods.pte"]
    words += [f"--manifest={PROGRAMS}/methods.manifest.json"]
    words += [f"--program_data={PROGRAMS}/methods.ptd"]
    words += [f"--expected={PROGRAMS}/methods_model.expected.safetensors", "--atol=1e-5"]
    assert compare.main([*words, "--max_rss_mb=4000", "--max_seconds_per_call=100"]) == 0
    printed = capfd.readouterr().out
    assert re.search(r"peak of the process's memory: [\d.]+ MB", printed)
    assert re.search(r'seconds of a call: \S+ s, method "\w+", input \d', printed)
    assert compare.main([*words, "--max_rss_mb=3", "--max_seconds_per_call=1e-9"]) == 1
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("FAILED")]
    assert [line.split(": ")[2] for line in lines] == ["max_rss_mb", "max_seconds_per_call"]
    assert re.search(r"got [\d.]+ MB, expected 3 MB or less. Raise max_rss_mb, or make", lines[0])
    assert re.search(r"three, expected 1e-09 s or less. Raise max_seconds_per_call, or", lines[1])


def test_memory_is_of_the_process_alone(tmp_path: Path) -> None:
    """Not of the test that starts it: this one has 400 MB more than the runtime needs."""
    ballast = bytearray(400 << 20)
    _, measured = run_of("xnnpack", tmp_path).run()
    assert ballast
    assert 10e6 < measured.rss_bytes < 300e6
    assert measured.peak_bytes < measured.rss_bytes


def test_budgets_of_variants(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program is compared with the budgets of its classes, if it runs here."""
    listed, programs = [], {}
    for name in ("portable", "xnnpack", "embedded"):
        run = run_of(name, tmp_path)
        paths = {key: str(getattr(run, key)) for key in ("program", "manifest", "expected")}
        programs[name] = f"//m:{name}"
        data = [str(path) for path in run.data]
        listed.append({"label": f"//m:{name}", "methods": [], "data": data, **paths})
    small = {"class": "ram_gb = 4", "devices": 3, "bounds": {"max_rss_mb": 3}}
    large = {"class": "ram_gb >= 8", "devices": 2, "bounds": {"max_rss_mb": 4000}}
    table = [{**small, "programs": ["//m:xnnpack"]}, {**large, "programs": [*programs.values()]}]
    (tmp_path / "t.json").write_text(json.dumps({"budgets": table}), encoding="utf-8")
    (tmp_path / "p.json").write_text(json.dumps({"programs": listed}), encoding="utf-8")
    words = ["--label=//m:t", f"--table={tmp_path}/t.json", f"--programs={tmp_path}/p.json"]
    lacks = budgets._lacks
    monkeypatch.setattr(
        budgets,
        "_lacks",
        lambda entry, work: "NpuBackend" if "embedded" in entry["label"] else lacks(entry, work),
    )
    assert budgets.main(words) == 1
    printed = capfd.readouterr()
    [line] = [line for line in printed.err.splitlines() if line.startswith("FAILED")]
    assert line.startswith(
        "FAILED: //m:t: //m:xnnpack for ram_gb = 4 (3 devices): max_rss_mb: peak of the "
    )
    assert "expected 3 MB or less. Raise max_rss_mb" in line
    assert "//m:portable for ram_gb >= 8 (2 devices): peak of the process's" in printed.out
    assert "//m:embedded: not run: this machine's runtime lacks NpuBackend" in printed.out
    monkeypatch.setattr(budgets, "_lacks", lambda entry, work: "NpuBackend")
    assert budgets.main(words) == 1
    assert "//m:t: no program with a budget runs on this machine." in capfd.readouterr().err


@pytest.mark.release
@counts
def test_instructions_hardly_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from run to run nor with threads; work that is larger takes more."""
    monkeypatch.setattr(instructions, "_perf_problem", lambda: "not tried")
    first = count(run_of("xnnpack", tmp_path), _VALGRIND[0])
    second = count(run_of("xnnpack", tmp_path), _VALGRIND[0])
    assert first.by == "valgrind"
    assert first.where == second.where == 'method "forward", input 0'
    assert abs(first.most - second.most) < 0.02 * first.most
    portable = count(run_of("portable", tmp_path), _VALGRIND[0])
    assert portable.most > first.most > 1000


def test_instructions_where_nothing_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of the kernel, and what to do."""
    monkeypatch.setattr(instructions, "_perf_problem", lambda: "Permission denied")
    with pytest.raises(BuildError) as caught:
        count(run_of("xnnpack", tmp_path), None)
    assert "this machine counts no instructions: perf_event_open: Permission" in caught.value.what
    assert "Remove max_instructions, or run the test on Linux on x86_64" in caught.value.hint


def test_a_failure_in_valgrind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ends without a word: the sentence names valgrind."""
    monkeypatch.setattr(instructions, "_perf_problem", lambda: "not tried")
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin/valgrind.bin"
    broken.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    with pytest.raises(BuildError, match="in valgrind: xnnpack.pte: ExecuTorch's runtime ended"):
        count(run_of("xnnpack", tmp_path), broken)


def test_the_kernels_counter() -> None:
    """The same code on an event that every kernel has: processor time of the thread, in ns."""
    clock = bytearray(instructions._ATTRIBUTES)
    struct.pack_into("<I", clock, 0, 1)
    struct.pack_into("<Q", clock, 8, 1)
    try:
        counter = instructions._Perf(bytes(clock))
    except OSError as error:
        pytest.skip(f"perf_event_open: {error}")
    work: list[Any] = []

    def function(times: int) -> int:
        work.append(sum(range(times)))
        return 0

    run = instructions._counting(counter, function)
    for counter.counts_next, times in ((False, 5), (True, 1000), (True, 1_000_000)):
        assert run(times) == 0
    assert len(work) == 3
    few, many = counter.counts
    assert many > 20 * few > 0


@pytest.mark.parametrize(
    ("figure", "text"),
    [(725657, "725,657"), (43.5912, "43.59"), (1234.56, "1,234.6"), (5.6512e-05, "5.651e-05")],
)
def test_figures_have_digits_to_set_a_bound_by(
    figure: float, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "count", lambda run, valgrind: Count(figure, "x", "y"))
    nothing: Any = None
    figures = costs.Figures(nothing, Measured(), None)
    problems = costs.exceeded("//m:t", {"max_instructions": 1e-9}, figures)
    assert f"got {text}, x, counted by y, expected 1e-09 or less" in problems[0]
