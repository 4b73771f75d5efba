"""Data files: what is written is read, and damage is noticed. Needs no torch."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import ptd
from etlink.container import Piece
from etlink.named_data import Layout, NamedData
from synthetic import named

ENTRIES = [
    named("z.weight", b"abcd" * 10, 16, Layout(6, (2, 5), (0, 1))),
    named("a.scalar", b"12345678", 1, Layout(7, (), ())),
    named("é—long key " * 20, b"\0" * 300),
    named("tied.weight", b"abcd" * 10, 16, Layout(6, (10, 1), (1, 0))),
    named("nothing", b"", 1, Layout(15, (0, 70000), (0, 1))),
]


def written(entries: list[tuple[NamedData, Piece]]) -> bytes:
    """The bytes of a data file."""
    out = io.BytesIO()
    ptd.write(out, entries)
    return out.getvalue()


def contents(path: Path) -> dict[str, bytes]:
    """Key to bytes of a data file."""
    whole = path.read_bytes()
    return {k: whole[p.offset : p.offset + p.size] for k, (p, _) in ptd.read(path).items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A data file with ENTRIES."""
    path = tmp_path / "d.ptd"
    path.write_bytes(written(ENTRIES))
    return path


def test_what_is_written_is_read(file: Path) -> None:
    assert contents(file) == {item.key: piece.data for item, piece in ENTRIES}
    assert {k: layout for k, (_, layout) in ptd.read(file).items()} == {
        item.key: item.layout for item, _ in ENTRIES
    }


def test_keys_are_sorted_and_the_order_of_entries_does_not_matter(file: Path) -> None:
    assert list(ptd.read(file)) == sorted(item.key for item, _ in ENTRIES)
    assert written(ENTRIES[::-1]) == written(ENTRIES) == file.read_bytes()


def test_equal_bytes_are_stored_once(file: Path) -> None:
    result = ptd.read(file)
    assert result["z.weight"][0] == result["tied.weight"][0]
    assert file.read_bytes().count(b"abcd" * 10) == 1


def test_a_file_without_keys(tmp_path: Path) -> None:
    path = tmp_path / "d.ptd"
    path.write_bytes(written([]))
    assert ptd.read(path) == {}


def test_a_newer_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a newer version wrote would be misread."""
    path = tmp_path / "d.ptd"
    monkeypatch.setattr(ptd, "SCHEMA_VERSION", 1)
    path.write_bytes(written(ENTRIES))
    assert len(ptd.read(path)) == len(ENTRIES)
    monkeypatch.setattr(ptd, "SCHEMA_VERSION", 0)
    with pytest.raises(BuildError, match=r"d\.ptd: schema version: got 1, expected at most 0, the"):
        ptd.read(path)


def test_data_are_aligned(tmp_path: Path) -> None:
    path = tmp_path / "d.ptd"
    path.write_bytes(written([named("a", b"x" * 100), named("b", b"y" * 100, 4096)]))
    with open(path, "rb") as source:
        base = struct.unpack_from("<Q", source.read(64), 8 + 4 + 4 + 8 + 8)[0]
    offsets = {key: piece.offset - base for key, (piece, _) in ptd.read(path).items()}
    assert base % 128 == 0
    assert offsets == {"a": 0, "b": 4096}


def test_shared_data_honor_the_alignments_of_all_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "d.ptd"
    first, same = b"x" * 100, b"y" * 100
    entries = [named("a", first), named("b", same, 16), named("c", same, 1024)]
    path.write_bytes(written(entries))
    result = ptd.read(path)
    assert result["c"][0].offset - result["a"][0].offset == 1024


def test_every_truncation_is_noticed(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(BuildError) as caught:
            ptd.read(file)
        assert str(file) in caught.value.what


def test_a_truncated_file_says_how_much_is_missing(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(BuildError) as caught:
        ptd.read(file)
    assert caught.value.what == (
        f"{file} is truncated: got {len(whole) - 1} bytes, but its header refers to byte "
        f"{len(whole)}."
    )


@pytest.mark.parametrize("data", [b"", b"FT01", b"PK\3\4" + bytes(100)])
def test_another_kind_of_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "d.ptd"
    path.write_bytes(data)
    with pytest.raises(BuildError, match=r"d\.ptd is not an ExecuTorch data file: bytes 4 to 8"):
        ptd.read(path)


def test_a_flipped_magic_is_noticed(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[8] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BuildError, match=r"d\.ptd is damaged: its header has no b'FH01'"):
        ptd.read(file)


def test_damaged_tables_are_noticed(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[:4] = struct.pack("<I", 1 << 30)
    file.write_bytes(whole)
    with pytest.raises(BuildError, match=r"d\.ptd is damaged: its tables cannot be read"):
        ptd.read(file)


def test_data_after_the_end_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "d.ptd"
    whole = bytearray(written([named("key", b"x" * 7919)]))
    # The only place that holds this number beside the header: the segment's size.
    at = whole.rindex(struct.pack("<Q", 7919))
    whole[at : at + 8] = struct.pack("<Q", 7920)
    path.write_bytes(whole)
    with pytest.raises(BuildError, match="the data of 'key' end after the file"):
        ptd.read(path)
