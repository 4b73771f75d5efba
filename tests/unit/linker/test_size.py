"""Amounts, size limits and merged data files. Needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import ptd, size
from etlink.amounts import bytes_of
from etlink.merge import merge
from synthetic import contents, program, shared_file

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


def file_of(folder: Path, name: str, **weights: bytes) -> Path:
    """A .ptd of these weights."""
    lowered = program(folder / f"{name}_lowered", f"//m:{name}", weights)
    shared_file(folder / f"{name}.ptd", f"//m:{name}", lowered)
    return folder / f"{name}.ptd"


def test_merged_files_have_all_keys_and_layouts(tmp_path: Path) -> None:
    one = file_of(tmp_path, "one", b=b"bbbb", a=b"aaaa" * 9)
    two = file_of(tmp_path, "two", c=b"aaaa" * 9)
    merged = merge([one, two], tmp_path / "m.ptd")
    assert merged == tmp_path / "m.ptd"
    assert contents(merged) == {"a": b"aaaa" * 9, "b": b"bbbb", "c": b"aaaa" * 9}
    layouts = {key: layout for key, (_, layout) in ptd.read(merged).items()}
    assert layouts["c"] == ptd.read(two)["c"][1]
    # Equal bytes of two files are one segment.
    assert merged.read_bytes().count(b"aaaa" * 9) == 1
    again = merge([two, one], tmp_path / "n.ptd")
    assert again.read_bytes() == merged.read_bytes()


def test_one_file_is_itself(tmp_path: Path) -> None:
    one = file_of(tmp_path, "one", a=b"aaaa")
    assert merge([one], tmp_path / "m.ptd") == one
    assert not (tmp_path / "m.ptd").exists()


def test_a_common_key_is_an_error(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=b"aaaa"), file_of(tmp_path, "two", a=b"aaaa")
    with pytest.raises(BuildError) as caught:
        merge([one, two], tmp_path / "m.ptd")
    assert caught.value.what == f'{two} and {one} both have the key "a".'
    assert not (tmp_path / "m.ptd").exists()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=b"aaaa"), file_of(tmp_path, "two", b=b"bbbb")
    two.write_bytes(two.read_bytes()[:-1])
    with pytest.raises(BuildError, match=r"two\.ptd is truncated"):
        merge([one, two], tmp_path / "m.ptd")
