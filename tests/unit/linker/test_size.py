"""Amounts and size limits. Needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import size
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


# One file out of several
