"""The record of the matrix's programs agrees with the rows, and is read from what tests print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import recorded

MATRIX = json.loads(Path("tests/backends/matrix.json").read_text())
RECORD = json.loads(Path(recorded.PATH).read_text())


def test_rows_say_what_was_recorded() -> None:
    assert list(recorded.contradictions(MATRIX["rows"], RECORD["programs"])) == []


def test_what_runs_each_time_is_quick() -> None:
    """`bazel test //...` runs programs of all backends in two minutes, one after the other."""
    often = [
        RECORD["programs"][f"{net}_{row['backend']}_{row['recipe']}"].get("test_seconds", 0)
        for row in MATRIX["rows"]
        for net in row["often"]
        if row["nets"].get(net) in ("ran", "lowered")
    ]
    assert sum(often) <= 120


RAN = {
    "bytes": 1,
    "lower_cpu_seconds": 1.0,
    "runs_in": "X",
    "run_cpu_seconds": 0.1,
    "sqnr_db": 41.0,
}
LOWERED = {"bytes": 1, "lower_cpu_seconds": 1.0}


@pytest.mark.parametrize(
    ("result", "entry", "said"),
    [
        ("ran", RAN, ""),
        ("ran", {**RAN, "sqnr_db": None}, ""),
        ("ran", {**RAN, "sqnr_db": 39.9}, "mlp_npu_fp16: 39.9 dB, expected 40 dB."),
        ("ran", LOWERED, "its row in matrix.bzl says ran, the record lowered. Run: bazel run"),
        ("ran", None, "says ran, the record nothing"),
        ("lowered", LOWERED, ""),
        ("lowered", RAN, "says lowered, the record ran"),
        ("lowered", None, "says lowered, the record nothing"),
        ("no SDK", None, ""),
        ("no SDK", LOWERED, "says not lowered, the record lowered"),
    ],
)
def test_contradictions(result: str, entry: dict[str, Any] | None, said: str) -> None:
    row = {"backend": "npu", "recipe": "fp16", "nets": {"mlp": result}, "sqnr_db": {"mlp": 40}}
    entries = {} if entry is None else {"mlp_npu_fp16": entry}
    found = list(recorded.contradictions([row], entries))
    assert len(found) == bool(said)
    assert all(said in sentence for sentence in found)


def test_an_entry_of_a_program_that_no_row_has() -> None:
    [said] = recorded.contradictions([], {"conv_npu_gone": LOWERED})
    assert "conv_npu_gone: its row in matrix.bzl says not lowered, the record lowered" in said


LOG = """\
exec ${PAGER:-/usr/bin/less} "$0" || exit 1
-----------------------------------------------------------------------------
method "forward", input 0, output 0: largest difference 0.0142, SQNR 41.3 dB
method "forward", input 1, output 0: largest difference 0.02, SQNR 39.8 dB
method "forward", input 1, output 1: largest difference 0, SQNR inf dB
//m:t: ran in Mesa's lavapipe and X 1.2: 2 cases, load 12.5 ms, run 2250.000 ms (CPU 1250.000 ms)
ExecuTorch 1.3.1:
method "forward", input 0, output 0: largest difference 0.0142, SQNR 3.0 dB
"""


def test_a_log() -> None:
    expected = {"runs_in": "Mesa's lavapipe and X 1.2", "run_cpu_seconds": 1.25, "sqnr_db": 39.8}
    assert recorded.of_log(LOG) == expected
    equal = LOG.replace("41.3", "inf").replace("39.8", "inf")
    assert recorded.of_log(equal)["sqnr_db"] is None
    with pytest.raises(ValueError, match="no line of what ran"):
        recorded.of_log("FAILED: //m:t: no runtime")


def test_events_of_builds_and_tests() -> None:
    def complete(name: str, success: bool) -> dict[str, Any]:
        return {
            "id": {"targetCompleted": {"label": f"//m:{name}"}},
            "completed": {"success": True} if success else {},
        }

    def summary(name: str, status: str) -> dict[str, Any]:
        return {
            "id": {"testSummary": {"label": f"//m:{name}"}},
            "testSummary": {"overallStatus": status, "totalRunDurationMillis": "2500"},
        }

    events = [
        {"id": {"started": {}}},
        complete("built", True),
        complete("broken", False),
        complete("passed_test", True),
        complete("failed_test", True),
        summary("passed_test", "PASSED"),
        summary("failed_test", "FAILED"),
    ]
    assert recorded.succeeded(events) == {"built": 0.0, "passed_test": 2.5}
