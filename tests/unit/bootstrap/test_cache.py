"""One process at a time, and nothing half-done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from bootstrap.cache import exclusive, new_directory, write_file


def _hold(lock: Path, held: Event) -> None:
    with exclusive(lock, "holding the lock"):
        held.set()
        time.sleep(60)


def _holder(lock: Path) -> multiprocessing.Process:
    held = multiprocessing.Event()
    process = multiprocessing.Process(target=_hold, args=(lock, held), daemon=True)
    process.start()
    assert held.wait(10)
    return process


def test_the_second_waits_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And a killed process leaves no lock behind."""
    process = _holder(tmp_path / "lock")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(process.pid or 0, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with exclusive(tmp_path / "lock", "holding the lock"):
        pass
    process.join()
    message = capfd.readouterr().err
    assert (
        f"waiting for another bazelw (process {process.pid}), which is holding the lock" in message
    )


def test_nobody_waits_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A free lock is taken without a word, again and again."""
    for _ in range(2):
        with exclusive(tmp_path / "deep/lock", "x"):
            pass
    assert capfd.readouterr().err == ""


def test_new_directory(tmp_path: Path) -> None:
    """It appears as a whole, in place of an old one."""
    final = tmp_path / "final"
    final.mkdir()
    (final / "old").touch()
    with new_directory(final) as (directory, scratch):
        (directory / "new").touch()
        (scratch / "other").touch()
        assert (final / "old").exists()
    assert [path.name for path in final.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_failure_leaves_the_old_one(tmp_path: Path) -> None:
    """Nothing of the attempt stays, not even of read-only directories."""
    final = tmp_path / "final"
    final.mkdir()
    with pytest.raises(KeyboardInterrupt), new_directory(final) as (directory, _):
        (directory / "a").mkdir()
        (directory / "a/file").touch()
        (directory / "a").chmod(0o555)
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_leftovers_are_removed(tmp_path: Path) -> None:
    """Leftovers of a killed process are gone after the next start."""
    (tmp_path / "unfinished-1").mkdir()
    (tmp_path / "unfinished-1/file").touch()
    with new_directory(tmp_path / "final"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_write_file(tmp_path: Path) -> None:
    """Readable by others, and no temporary file stays."""
    write_file(tmp_path / "d/f", "one")
    write_file(tmp_path / "d/f", "two", executable=True)
    assert (tmp_path / "d/f").read_text() == "two"
    assert (tmp_path / "d/f").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"]
