"""Messages of a request about its stages and its memory. Needs no torch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from etlower import progress


@pytest.mark.parametrize(("platform", "expected"), [("linux", 5 * 1024), ("darwin", 5)])
def test_peak_memory(platform: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`getrusage` of Linux says KiB, that of macOS bytes."""
    usage = types.SimpleNamespace(ru_maxrss=5)
    monkeypatch.setattr(resource, "getrusage", lambda _: usage)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(progress, "_STATUS", Path("/nowhere"))
    assert progress.peak_memory() == expected
    assert progress.Progress().as_json() == {"stages": [], "peak_memory_bytes": expected}


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not count a process's parent")
def test_peak_memory_is_not_that_of_the_parent() -> None:
    """`getrusage` of a new program includes what the process had that started it."""
    ballast = bytearray(200 << 20)
    own = progress.peak_memory()
    words = [sys.executable, "-c", "from etlower import progress; print(progress.peak_memory())"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    assert ballast
    assert own > 200 << 20 > int(done.stdout) > 5 << 20


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
