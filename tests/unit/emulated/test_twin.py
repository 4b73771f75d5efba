"""Notices of programs that run in place of those for the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner import twin


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Returns the target's own program and the one that runs, as a script names them."""
    own, running = tmp_path / "own.pte", tmp_path / "twin.pte"
    own.write_bytes(b"shared")
    running.write_bytes(b"apart!")
    monkeypatch.setenv(twin.OF, str(own))
    monkeypatch.setenv(twin.LACKS, "weights that methods share")
    return own, running


def test_a_twin_is_said(files: tuple[Path, Path]) -> None:
    """Bytes count, not sizes or times."""
    assert twin.notice(files[1], "//a:b") == (
        "//a:b: runs a twin of the program, lowered without weights that methods share, which only "
        "the device takes. The program itself was built, and does not run here."
    )


def test_equal_bytes_are_no_twin(files: tuple[Path, Path]) -> None:
    own, running = files
    running.write_bytes(own.read_bytes())
    assert twin.notice(running, "//a:b") == ""


def test_programs_that_run_themselves(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(twin.OF)
    assert twin.notice(files[1], "//a:b") == ""
