"""Reads and writes .ptd files: named data that programs load at run time."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from etbuild.errors import BuildError

from etlink import flat_tensor
from etlink.container import (
    REBUILD,
    Piece,
    Segment,
    aligned,
    common_alignment,
    insert_header,
    place,
    write_segments,
)
from etlink.flat_tensor import Layout
from etlink.flatbuffer import DamagedError
from etlink.tables import MOST_DIMENSIONS, SCALAR_TYPES

SEGMENT_ALIGNMENT = 128

_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ")
_HEADER_ALIGNMENT = 16
# Offsets of flatbuffers have 32 bits, some with a sign.
_LARGEST_TABLES = 2**31 - 1


@dataclass(frozen=True)
class Entry:
    """One key of a .ptd file.

    Attributes:
      key: what a program looks it up by.
      blob: identity of its bytes (sha256, hex): entries with the same one share a segment.
      piece: the bytes.
      alignment: bytes.
      layout: present for tensors that a program loads by name.
    """

    key: str
    blob: str
    piece: Piece
    alignment: int = 1
    layout: Layout | None = None


def write(
    out: BinaryIO, entries: Sequence[Entry], segment_alignment: int = SEGMENT_ALIGNMENT
) -> None:
    """Writes a .ptd file, in bounded memory.

    Args:
      out: where to.
      entries: sorted by key here; equal bytes are stored once.
      segment_alignment: bytes.

    Raises:
      BuildError: entries can't be aligned as they should be.
    """
    segments: list[Segment] = []
    index_of: dict[str, int] = {}
    alignments: dict[str, int] = {}
    for entry in entries:
        alignments[entry.blob] = math.lcm(alignments.get(entry.blob, 1), entry.alignment)
    named = []
    for entry in sorted(entries, key=lambda e: e.key):
        if entry.blob not in index_of:
            index_of[entry.blob] = len(segments)
            segments.append(Segment((entry.piece,), alignments[entry.blob]))
        named.append(flat_tensor.Named(entry.key, index_of[entry.blob], entry.layout))
    placed = place(segments, segment_alignment)
    flatbuffer = flat_tensor.pack(placed, named)
    header_size = aligned(_HEADER.size, _HEADER_ALIGNMENT)
    # Offsets count from here: segments are aligned in the file where this is.
    base = aligned(len(flatbuffer) + header_size, common_alignment(segments, segment_alignment))
    data_size = placed[-1][0] + placed[-1][1] if placed else 0
    header = _HEADER.pack(_MAGIC, _HEADER.size, header_size, len(flatbuffer), base, data_size)
    out.write(insert_header(flatbuffer, header.ljust(header_size, b"\0")))
    out.write(bytes(base - header_size - len(flatbuffer)))
    write_segments(out, segments, placed)


def read(path: Path) -> Mapping[str, tuple[Piece, Layout | None]]:
    """Reads a .ptd file's keys; the data stays on disk.

    Returns:
      Key to bytes and layout.

    Raises:
      BuildError: it is missing, no .ptd file, truncated or damaged.
    """
    if not path.is_file():
        raise BuildError(f"{path} is missing.", "Build it, or correct the path.")
    size = path.stat().st_size
    with open(path, "rb") as source:
        head = source.read(8 + _HEADER.size)
        if len(head) < 8 + _HEADER.size or not head[4:8].startswith(b"FT"):
            raise BuildError(
                f"{path} is not an ExecuTorch data file: bytes 4 to 8 are {head[4:8]!r}, "
                f"wanted {flat_tensor.IDENTIFIER!r}.",
                REBUILD,
            )
        magic, _, start, length, base, data_size = _HEADER.unpack_from(head, 8)
        if magic != _MAGIC:
            raise BuildError(f"{path} is damaged: its header has no {_MAGIC!r}.", REBUILD)
        if max(start + length, base + data_size) > size:
            raise BuildError(
                f"{path} is truncated: it has {size} bytes, its header names "
                f"{max(start + length, base + data_size)}.",
                REBUILD,
            )
        if start + length > _LARGEST_TABLES:
            raise BuildError(
                f"{path} is damaged: its tables have {start + length} bytes, wanted at most "
                f"{_LARGEST_TABLES}.",
                REBUILD,
            )
        source.seek(0)
        flatbuffer = source.read(start + length)
    try:
        return _pieces(path, base, size, *flat_tensor.unpack(flatbuffer))
    except ValueError as error:
        raise BuildError(
            f"{path} is damaged: its tables can't be read ({error}).", REBUILD
        ) from error


def _pieces(
    path: Path,
    base: int,
    size: int,
    segments: Sequence[tuple[int, int]],
    named: Sequence[flat_tensor.Named],
) -> dict[str, tuple[Piece, Layout | None]]:
    found: dict[str, tuple[Piece, Layout | None]] = {}
    for item in named:
        if item.segment >= len(segments):
            raise DamagedError(
                f"the data of {item.key!r} are segment {item.segment} of {len(segments)}"
            )
        offset, length = segments[item.segment]
        if base + offset + length > size:
            raise DamagedError(f"the data of {item.key!r} ends after the file")
        if item.key in found:
            raise DamagedError(f"two keys are {item.key!r}")
        piece = Piece(length, path=path, offset=base + offset)
        if item.layout:
            _check_layout(path, item.key, piece, item.layout)
        found[item.key] = (piece, item.layout)
    return found


def _check_layout(path: Path, key: str, piece: Piece, layout: Layout) -> None:
    """Fails for a tensor that isn't as long as its bytes: a runtime would read beyond them."""
    _, width = SCALAR_TYPES.get(layout.scalar_type, ("", 0))
    fits = (
        width
        and len(layout.sizes) <= MOST_DIMENSIONS
        and min(layout.sizes, default=0) >= 0
        and width * math.prod(layout.sizes) == piece.size
    )
    if fits and sorted(layout.dim_order) == list(range(len(layout.sizes))):
        return
    raise BuildError(
        f'{path} is damaged: "{key}" has {piece.size} bytes, and its layout is '
        f"{layout.described()}.",
        REBUILD,
    )
