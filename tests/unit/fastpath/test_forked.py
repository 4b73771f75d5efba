"""Results of a second core are those that this process would have computed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from etlower import forked
from etlower.forked import ForkedTask, merge_from_children


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "cores", lambda: 2)


def test_another_process() -> None:
    with ForkedTask(os.getpid) as work:
        assert work.result() != os.getpid()


def test_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "cores", lambda: 1)
    with ForkedTask(os.getpid) as work:
        assert work.result() == os.getpid()


def test_results_larger_than_a_pipe() -> None:
    with ForkedTask(lambda: bytes(10_000_000)) as work:
        assert work.result() == bytes(10_000_000)


def test_an_error_is_raised_here() -> None:
    """It is the error of this process, with its stack trace."""
    tried = []

    def wrong() -> None:
        tried.append(os.getpid())
        raise ValueError("wrong")

    with ForkedTask(wrong) as work, pytest.raises(ValueError, match="wrong"):
        work.result()
    assert tried == [os.getpid()]


@pytest.mark.parametrize("reason", ["not sound", "killed", "cannot be pickled"])
def test_work_that_cannot_be_used_is_done_here(reason: str) -> None:
    here = os.getpid()

    def work() -> object:
        if reason == "killed" and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return (lambda: None) if reason == "cannot be pickled" else os.getpid()

    with ForkedTask(work, sound=lambda: reason != "not sound") as beside_this:
        result = beside_this.result()
    assert callable(result) if reason == "cannot be pickled" else result == here


def test_nothing_goes_on_after_an_error(tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"

    def slow() -> None:
        began.touch()
        time.sleep(60)
        ended.touch()

    with pytest.raises(ValueError, match="elsewhere"), ForkedTask(slow):
        while not began.exists():
            time.sleep(0.01)
        raise ValueError("elsewhere")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, 0)
    assert not ended.exists()


def test_notes_come_back() -> None:
    """In the order of the work: first what was noted here, then what the child noted."""
    notes: dict[str, list[int]] = {"a": [1]}

    def work() -> None:
        notes["a"].append(3)
        notes.setdefault("b", []).append(4)

    with merge_from_children(notes):
        with ForkedTask(work) as beside_this:
            notes["a"].append(2)
            beside_this.result()
        assert notes == {"a": [1, 2, 3], "b": [4]}
    with ForkedTask(work) as forgotten:
        forgotten.result()
    assert notes == {"a": [1, 2, 3], "b": [4]}
