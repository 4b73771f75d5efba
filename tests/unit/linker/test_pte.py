"""Program files: reading and writing, and damage. Needs no torch."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import pte, schema
from etlink.container import Piece, Segment
from synthetic import SyntheticProgram


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A program with constants, a delegate and named data."""
    return SyntheticProgram().write(tmp_path / "p.pte")


def test_segments_are_found(file: Path) -> None:
    read = pte.read(file)
    whole = file.read_bytes()
    parts = [whole[start : start + size] for start, size in read.segments]
    assert parts == [
        bytes(range(40)) + bytes(8) + b"bias" + bytes(12) + b"w" * 12,
        b"payload" * 30,
        b"two" * 99,
        b"one" * 5,
    ]
    assert all(start % pte.SEGMENT_ALIGNMENT == 0 for start, _ in read.segments)
    assert read.piece(1) == Piece(210, path=file, offset=read.segments[1][0])
    assert [(n.key, n.segmentIndex) for n in read.program.namedData] == [
        (b"k2", 2),
        (b"k1", 3),
        (b"same", 2),
    ]


def test_writing_what_was_read_gives_the_same_bytes(file: Path, tmp_path: Path) -> None:
    read = pte.read(file)
    again = tmp_path / "again.pte"
    with open(again, "wb") as out:
        segments = [Segment((read.piece(n),)) for n in range(len(read.segments))]
        pte.write(out, read.program, segments)
    assert again.read_bytes() == file.read_bytes()


def test_a_program_without_segments_has_no_header(tmp_path: Path) -> None:
    path = SyntheticProgram(methods={"forward": {}}, delegates=[], named={}).write(
        tmp_path / "p.pte"
    )
    read = pte.read(path)
    assert b"eh00" not in path.read_bytes()
    assert read.segments == ()
    assert read.program.executionPlan[0].name == b"forward"


def test_inline_data_are_aligned(tmp_path: Path) -> None:
    # A program that holds its constants and payloads in its tables, as older ones do.
    program = schema.program_class("ProgramT")()
    program.executionPlan, program.segments = [], []
    buffer = schema.program_class("BufferT")()
    buffer.storage = b"0123456789abcdef!"
    inline = schema.program_class("BackendDelegateInlineDataT")()
    inline.data = b"fedcba9876543210?"
    program.constantBuffer, program.backendDelegateData = [buffer], [inline]
    packed = schema.pack_program(program)
    for data in (buffer.storage, inline.data):
        assert packed.index(data) % schema.INLINE_ALIGNMENT == 0
    read = schema.unpack_program(packed)
    assert bytes(read.constantBuffer[0].storage) == buffer.storage
    assert bytes(read.backendDelegateData[0].data) == inline.data


@pytest.mark.parametrize(
    "data", [b"", b"ET12", b"PK\3\4" + bytes(100), b"\x20\0\0\0FT01" + bytes(99)]
)
def test_another_kind_of_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "p.pte"
    path.write_bytes(data)
    with pytest.raises(BuildError) as caught:
        pte.read(path)
    assert caught.value.what == (
        f"{path} is not an ExecuTorch program: bytes 4 to 8 are {data[4:8]!r}, expected b'ET12'."
    )


def test_every_truncation_is_noticed(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(BuildError) as caught:
            pte.read(file)
        assert str(file) in caught.value.what


def test_a_truncated_file_says_what_is_missing(file: Path) -> None:
    whole = file.read_bytes()
    last = len(pte.read(file).segments) - 1
    file.write_bytes(whole[:-1])
    with pytest.raises(BuildError) as caught:
        pte.read(file)
    assert caught.value.what == (
        f"{file} is truncated: segment {last} ends at byte {len(whole)}, the file at "
        f"{len(whole) - 1}."
    )
    file.write_bytes(whole[:100])
    with pytest.raises(BuildError, match=r"p\.pte is truncated: got 100 bytes, but its header"):
        pte.read(file)


def test_a_flipped_header_magic_is_noticed(file: Path) -> None:
    # Without a header, offsets of segments would count from the start of the file.
    whole = bytearray(file.read_bytes())
    whole[8] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BuildError, match=r"p\.pte is damaged: .*header"):
        pte.read(file)


def test_damaged_tables_are_noticed(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[:4] = struct.pack("<I", 1 << 30)
    file.write_bytes(whole)
    with pytest.raises(BuildError, match=r"p\.pte is damaged: its tables cannot be read"):
        pte.read(file)
