"""Tests and their seconds by folder, from the file of `bazel test --build_event_json_file`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def of_events(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Sums up the times of each folder's tests.

    A test that did not pass, or whose result came from a cache, says nothing about the time.

    Args:
      lines: the file's, a JSON object each.

    Returns:
      By folder (two levels, such as "tests/unit"), the slowest first: `folder`, `tests` that ran
      and passed, and the sum of their `seconds` on the clock. Tests beside each other both count.
    """
    folders: dict[str, list[float]] = {}
    for line in lines:
        event = json.loads(line)
        label = event.get("id", {}).get("testSummary", {}).get("label")
        summary = event.get("testSummary", {})
        ran = summary.get("overallStatus") == "PASSED" and not summary.get("totalNumCached")
        if label is None or not ran:
            continue
        package = label.removeprefix("//").partition(":")[0]
        folder = "/".join(package.split("/")[:2])
        seconds = int(summary.get("totalRunDurationMillis", 0)) / 1000
        folders.setdefault(folder, []).append(seconds)
    rows = [
        {"folder": folder, "tests": len(each), "seconds": round(sum(each), 1)}
        for folder, each in folders.items()
    ]
    return sorted(rows, key=lambda row: (-row["seconds"], row["folder"]))
