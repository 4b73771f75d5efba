"""Amounts, limits of sizes and of estimates. Needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlink import estimates, size
from etlink.amounts import bytes_of

SUMMARY = {
    "program_bytes": 1000,
    "data_bytes": 200,
    "shared": [{"file_bytes": 30_000}, {"file_bytes": 8_800}],
    "unshared": [{"name": "head", "bytes": 900, "reason": "no shared file has it"}],
}


def test_a_percentage_is_not_a_size() -> None:
    with pytest.raises(BuildError, match=re.escape('max_bytes: got "5%", expected a number')):
        bytes_of("5%", "//m:t: max_bytes")


def test_sizes_within_their_limits() -> None:
    limits = {"max_bytes": "40000", "max_unshared_bytes": "1.2 kB"}
    assert size.exceeded("//m:t", SUMMARY, limits) == []


def test_each_limit_that_is_exceeded() -> None:
    limits = {"max_bytes": "39999", "max_unshared_bytes": "1 KiB"}
    rest = (
        "The .pte has 1000 bytes, its own .ptd 200. Largest that is not shared: head (900 bytes): "
        "no shared file has it."
    )
    assert size.exceeded("//m:t", SUMMARY, limits) == [
        f"//m:t: max_bytes is exceeded: got 40000 bytes, expected at most 39999. {rest}",
        f"//m:t: max_unshared_bytes is exceeded: got 1200 bytes, expected at most 1 KiB. {rest}",
    ]


def test_a_program_without_shared_data() -> None:
    alone = {"program_bytes": 5, "data_bytes": 0, "shared": [], "unshared": []}
    assert size.exceeded("//m:t", alone, {"max_bytes": "4"}) == [
        "//m:t: max_bytes is exceeded: got 5 bytes, expected at most 4. The .pte has 5 bytes, its "
        "own .ptd 0."
    ]


@pytest.mark.parametrize(
    ("limit", "code", "message"),
    [
        ("1200", 0, ""),
        ("1199", 1, "FAILED: //m:t: max_unshared_bytes is exceeded: got 1200 bytes"),
        ("10%", 1, 'FAILED: //m:t: max_unshared_bytes: got "10%", expected a number of bytes'),
        ("ten", 1, 'FAILED: //m:t: max_unshared_bytes: got "ten", expected a percentage'),
    ],
)
def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str, code: int, message: str
) -> None:
    path = tmp_path / "link.json"
    path.write_text(json.dumps(SUMMARY))
    words = ["--label", "//m:t", "--summary", str(path), "--max_unshared_bytes", limit]
    assert size.main(words) == code
    assert capsys.readouterr().err.startswith(message)


# Estimates of compilers


def delegate(**figures: float | str) -> dict[str, Any]:
    """A delegate with an estimate."""
    estimate = {"estimate": figures} if figures else {}
    return {"backend": "NpuBackend", "nodes": 1, "flops": 2, **estimate}


METHODS = {
    "prefill": {
        "delegates": [
            delegate(cycles=900, seconds=0.5, sram_bytes=300, clock_hz=5, accelerator="u55"),
            delegate(),
            delegate(cycles=100, seconds=0.25, sram_bytes=500, sram_read_write_bytes=7),
        ]
    },
    "decode": {"delegates": [delegate(cycles=10, seconds=0.125)]},
    "plain": {"delegates": [delegate()]},
    "none": {"delegates": []},
}
TOTALS = {
    "decode": {"delegates": 1, "cycles": 10, "seconds": 0.125},
    "prefill": {
        "delegates": 2,
        "cycles": 1000,
        "seconds": 0.75,
        "sram_bytes": 500,
        "sram_read_write_bytes": 7,
    },
}


def test_sums_and_the_largest_by_method() -> None:
    assert estimates.of_program(METHODS) == TOTALS
    assert list(estimates.of_program(METHODS)) == ["decode", "prefill"]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (["--max_cycles=1000", "--max_sram=500 B"], ""),
        (
            ["--max_cycles=9.99e2"],
            'FAILED: //m:t: max_cycles is exceeded: method "prefill": got 1000 cycles, expected at '
            "most 999. The report of //m:p has the figures of each delegate.\n",
        ),
        (
            ["--max_cycles=9", "--max_sram=499"],
            'FAILED: //m:t: max_cycles is exceeded: method "decode": got 10 cycles, expected at '
            "most 9. The report of //m:p has the figures of each delegate.\n"
            'FAILED: //m:t: max_cycles is exceeded: method "prefill": got 1000 cycles, expected at '
            "most 9. The report of //m:p has the figures of each delegate.\n"
            'FAILED: //m:t: max_sram is exceeded: method "prefill": got 500 bytes of SRAM, '
            "expected at most 499. The report of //m:p has the figures of each delegate.\n",
        ),
    ],
)
def test_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: list[str], message: str
) -> None:
    assert run(tmp_path, TOTALS, limits) == (1 if message else 0)
    assert capsys.readouterr().err == message


def test_a_limit_of_a_program_without_estimates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {}, ["--max_cycles=1", "--max_sram=1 MB"]) == 1
    message = (
        "FAILED: //m:t: {0}: //m:p has no delegate whose compiler estimates {1}. Lower it with a "
        "recipe for Ethos-U, or remove {0}.\n"
    )
    assert capsys.readouterr().err == message.format("max_cycles", "cycles") + message.format(
        "max_sram", "bytes of SRAM"
    )


def run(folder: Path, of_program: dict[str, Any], limits: list[str]) -> int:
    """Runs the check on a summary with these estimates."""
    path = folder / "link.json"
    path.write_text(json.dumps({"manifest": {"label": "//m:p"}, "estimates": of_program}))
    return size.main(["--label=//m:t", f"--summary={path}", *limits])
