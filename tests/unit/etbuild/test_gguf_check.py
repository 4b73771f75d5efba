"""Headers of GGUF files that the gguf library would trust. Needs no gguf."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from etbuild import BuildError, check_gguf


def string(text: bytes) -> bytes:
    """A string as GGUF has it."""
    return struct.pack("<Q", len(text)) + text


def file(values: bytes = b"", tensors: bytes = b"", counts: tuple[int, int] = (0, 1)) -> bytes:
    """A file of values and tensors; counts are of tensors and of values."""
    return b"GGUF" + struct.pack("<IQQ", 3, *counts) + values + tensors


ARRAY = string(b"k") + struct.pack("<IIQ", 9, 0, 3) + b"abc"
NAMES = string(b"k") + struct.pack("<IIQ", 9, 8, 2) + string(b"a") + string(b"")
NUMBER = string(b"k") + struct.pack("<Iq", 11, -5)
TENSOR = string(b"w") + struct.pack("<IQQIQ", 2, 4, 8, 0, 0)


@pytest.mark.parametrize(
    "whole",
    [
        file(counts=(0, 0)),
        file(ARRAY),
        file(NAMES),
        file(NUMBER + ARRAY, TENSOR, (1, 2)),
        b"GGUF" + struct.pack("<IQQ", 2, 0, 0),
    ],
)
def test_whole_headers(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(whole)
    check_gguf(tmp_path / "m.gguf")
    for length in range(len(whole)):
        (tmp_path / "m.gguf").write_bytes(whole[:length])
        with pytest.raises(BuildError, match=r"m\.gguf: "):
            check_gguf(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        # The library makes 2^60 empty elements of this, until memory runs out.
        (
            file(string(b"k") + struct.pack("<IIQ", 9, 0, 1 << 60) + b"abc"),
            r"names 1152921504606846976 el",
        ),
        (
            file(counts=(0, 1 << 60)),
            "names 1152921504606846976 values at byte 24, and 0 bytes follow",
        ),
        (file(counts=(1 << 60, 0)), "names 1152921504606846976 tensors at byte 24"),
        (file(struct.pack("<Q", 1 << 63) + bytes(8)), "names 9223372036854775808 bytes of a key"),
        (file(string(b"k") + struct.pack("<I", 13) + bytes(99)), "a value is of type 13"),
        (file(string(b"k") + struct.pack("<IIQ", 9, 9, 1) + bytes(99)), "of type 9 in an array"),
        (file(b"", string(b"w") + struct.pack("<I", 9) + bytes(99), (1, 0)), "has 9 dimensions"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "its version is 50331648, expected 2 or 3"),
    ],
)
def test_malformed_headers(tmp_path: Path, whole: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(whole)
    with pytest.raises(BuildError, match=message) as caught:
        check_gguf(path)
    assert caught.value.what.startswith(
        f"{path}: expected a complete GGUF file; found {len(whole)}"
    )


def test_an_array_that_would_take_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    with path.open("wb") as out:
        out.write(file(string(b"k") + struct.pack("<IIQ", 9, 0, 5 << 20)))
        out.truncate(6 << 20)
    with pytest.raises(BuildError, match="its arrays have more than 4194304 elements"):
        check_gguf(path)
