"""Messages of a request about its stages and its memory. Needs no torch."""

from __future__ import annotations

import resource
import sys
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
