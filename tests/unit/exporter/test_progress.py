"""Messages of a request about its stages and its memory. Needs no torch."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import types

import pytest
from etlower import progress


@pytest.mark.parametrize(("platform", "expected"), [("linux", 5 * 1024), ("darwin", 5)])
def test_peak_memory(platform: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux says KiB, macOS bytes."""
    usage = types.SimpleNamespace(ru_maxrss=5)
    monkeypatch.setattr(resource, "getrusage", lambda _: usage)
    monkeypatch.setattr(sys, "platform", platform)
    assert progress.peak_memory() == expected
    assert progress.Progress().as_json() == {"stages": [], "peak_memory_bytes": expected}


def test_processor_time_of_a_stage() -> None:
    """It counts what a stage computes, here and in a child, not what it waits for."""
    watch = progress.Progress()
    with watch.stage("waits"):
        time.sleep(0.3)
    with watch.stage("computes"):
        _compute()
    with watch.stage("has a child that computes"):
        subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    waits, computes, child = watch.as_json()["stages"]
    assert waits["cpu_seconds"] < 0.1 < waits["seconds"]
    assert computes["cpu_seconds"] > 0.05
    assert child["cpu_seconds"] > 0.05


def _compute() -> None:
    begin = time.process_time()
    while time.process_time() < begin + 0.1:
        pass
