"""Seconds of tests by folder."""

from __future__ import annotations

import json
from typing import Any

import suites


def event(label: str, milliseconds: int, status: str = "PASSED", cached: int = 0) -> str:
    """A line as Bazel writes it: 64-bit numbers are texts, zeros are left out."""
    summary: dict[str, Any] = {
        "overallStatus": status,
        "totalRunDurationMillis": str(milliseconds),
    }
    if cached:
        summary["totalNumCached"] = cached
    return json.dumps({"id": {"testSummary": {"label": label}}, "testSummary": summary})


def test_seconds_by_folder() -> None:
    """Packages below a folder count for it."""
    lines = [
        json.dumps({"id": {"started": {}}, "started": {}}),
        event("//tests/unit/linker:a", 1500),
        event("//tests/unit/exporter:b", 500),
        event("//models:c", 3000),
    ]
    assert suites.of_events(lines) == [
        {"folder": "models", "tests": 1, "seconds": 3.0},
        {"folder": "tests/unit", "tests": 2, "seconds": 2.0},
    ]


def test_what_did_not_run_or_pass() -> None:
    """Its time is another one's, or says nothing."""
    assert not suites.of_events([event("//a:b", 9, "FAILED"), event("//a:c", 9, cached=1)])
