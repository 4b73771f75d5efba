"""The record of the matrix's programs: reading of reports and logs, and comparison with the rows.

An entry has its `backend`, `bytes` of the .pte file and `lower_cpu_seconds`; of a program that ran
also `runs_in`, the least `sqnr_db` of an output (None: all are equal to the eager model's),
`run_cpu_seconds` of all cases, and `test_seconds`. What is shown is processor time, which other
work on the machine hardly changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PATH = "tests/bench/results/backends.json"

# What tools/etlower/compare.py prints.
_RAN = re.compile(
    r"^\S+: ran in (.+): \d+ cases?, load [\d.]+ ms, run [\d.]+ ms \(CPU ([\d.]+) ms\)$",
    re.MULTILINE,
)
_SQNR = re.compile(r"^.*, SQNR (-?(?:[\d.]+|inf)) dB$", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """Claim of a row on a program.

    Attributes:
      backend: folder in //backends.
      ran: whether it ran; else it was lowered only.
    """

    backend: str
    ran: bool


def programs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Claim]:
    """The programs by name that rows of the matrix say were lowered."""
    return {
        f"{net}_{row['backend']}_{row['recipe']}": Claim(row["backend"], result == "ran")
        for row in rows
        for net, result in row["nets"].items()
        if result in ("ran", "lowered")
    }


def succeeded(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Lists the targets that Bazel built, and whose test passed.

    Args:
      events: of `--build_event_json_file`.

    Returns:
      Name to the seconds of its test; 0: it is none.
    """
    seconds: dict[str, float] = {}
    for event in events:
        kind = event["id"]
        label = kind.get("testSummary", kind.get("targetCompleted", {})).get("label", "")
        name, summary = label.rpartition(":")[2], event.get("testSummary")
        if event.get("completed", {}).get("success"):
            seconds[name] = 0.0
        # A test is complete when it is built, and its summary comes after that.
        elif summary and summary["overallStatus"] == "PASSED":
            seconds[name] = int(summary.get("totalRunDurationMillis", 0)) / 1000
        elif summary:
            seconds.pop(name, None)
    return seconds


def of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's part that the report of a program has."""
    seconds = sum(stage["cpu_seconds"] for stage in report["lowering"]["stages"])
    return {"bytes": report["bytes"]["program"], "lower_cpu_seconds": round(seconds, 1)}


def of_log(log: str) -> dict[str, Any]:
    """An entry's part that the log of a program's test has.

    Raises:
      ValueError: the log does not say what ran.
    """
    ran = _RAN.search(log)
    if ran is None:
        raise ValueError(f"the log of a test has no line of what ran:\n{log}")
    # The first runtime's outputs: those of older ones come after this line.
    ratios = [float(ratio) for ratio in _SQNR.findall(log[: ran.start()])]
    least = min(ratios, default=math.inf)
    return {
        "runs_in": ran[1],
        "run_cpu_seconds": round(float(ran[2]) / 1000, 6),
        "sqnr_db": least if math.isfinite(least) else None,
    }


def contradictions(
    rows: Sequence[Mapping[str, Any]], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Says where rows claim something else than what was recorded; a sentence each."""
    claimed = programs(rows)
    for name in sorted(claimed.keys() | entries.keys()):
        entry = entries.get(name)
        got = "nothing" if entry is None else "ran" if "runs_in" in entry else "lowered"
        claim = claimed.get(name)
        row = "not lowered" if claim is None else "ran" if claim.ran else "lowered"
        if got != row:
            yield (
                f"{name}: its row in matrix.bzl says {row}, the record {got}. "
                f"Run: bazel run //tests/backends:record -- {name}"
            )
    for row in rows:
        for net, least in row["sqnr_db"].items():
            entry = entries.get(f"{net}_{row['backend']}_{row['recipe']}", {})
            ratio = entry.get("sqnr_db")
            if ratio is not None and ratio < least:
                yield f"{net}_{row['backend']}_{row['recipe']}: {ratio} dB, expected {least} dB."
