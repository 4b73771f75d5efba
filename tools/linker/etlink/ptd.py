"""Reads and writes .ptd files: named data that programs load at run time."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from etbuild.errors import BuildError

from etlink import schema
from etlink.container import (
    Piece,
    Segment,
    aligned,
    insert_header,
    place,
    write_segments,
)

SEGMENT_ALIGNMENT = 128

_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ")
_HEADER_ALIGNMENT = 16


@dataclass(frozen=True)
class Layout:
    """Shape of a tensor, as a .ptd file stores it.

    Attributes:
      scalar_type: number of the element type in scalar_type.fbs (6 is float32).
      sizes: elements per dimension.
      dim_order: dimensions from outer to inner.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]


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


def write(out: BinaryIO, entries: Sequence[Entry]) -> None:
    """Writes a .ptd file, in bounded memory.

    Args:
      out: where to.
      entries: sorted by key here; equal bytes are stored once.
    """
    segments: list[Segment] = []
    index_of: dict[str, int] = {}
    named = []
    for entry in sorted(entries, key=lambda e: e.key):
        if entry.blob not in index_of:
            index_of[entry.blob] = len(segments)
            segments.append(Segment((entry.piece,), entry.alignment))
        item = schema.data_class("NamedDataT")()
        item.key = entry.key
        item.segmentIndex = index_of[entry.blob]
        item.tensorLayout = _layout_table(entry.layout)
        named.append(item)
    placed = place(segments, SEGMENT_ALIGNMENT)
    root = schema.data_class("FlatTensorT")()
    root.version = 0
    root.namedData = named
    root.segments = []
    for start, size in placed:
        table = schema.data_class("DataSegmentT")()
        table.offset, table.size = start, size
        root.segments.append(table)
    flatbuffer = schema.pack_data(root)
    header_size = aligned(_HEADER.size, _HEADER_ALIGNMENT)
    base = aligned(len(flatbuffer) + header_size, SEGMENT_ALIGNMENT)
    data_size = placed[-1][0] + placed[-1][1] if placed else 0
    header = _HEADER.pack(_MAGIC, _HEADER.size, header_size, len(flatbuffer), base, data_size)
    out.write(insert_header(flatbuffer, header.ljust(header_size, b"\0")))
    out.write(bytes(base - header_size - len(flatbuffer)))
    write_segments(out, segments, placed)


def _layout_table(layout: Layout | None) -> Any:
    if layout is None:
        return None
    table = schema.data_class("TensorLayoutT")()
    table.scalarType = layout.scalar_type
    table.sizes = list(layout.sizes)
    table.dimOrder = list(layout.dim_order)
    return table


def read(path: Path) -> Mapping[str, tuple[Piece, Layout | None]]:
    """Reads a .ptd file's keys; the data stays on disk.

    Returns:
      Key to bytes and layout.

    Raises:
      BuildError: it is no .ptd file, or is truncated or damaged.
    """
    size = path.stat().st_size
    with open(path, "rb") as source:
        head = source.read(8 + _HEADER.size)
        if len(head) < 8 + _HEADER.size or not head[4:8].startswith(b"FT"):
            raise BuildError(
                f"{path} is not an ExecuTorch data file: bytes 4 to 8 are {head[4:8]!r}, "
                f"wanted {schema.DATA_IDENTIFIER!r}."
            )
        magic, _, start, length, base, data_size = _HEADER.unpack_from(head, 8)
        if magic != _MAGIC:
            raise BuildError(f"{path} is damaged: its header has no {_MAGIC!r}.")
        if max(start + length, base + data_size) > size:
            raise BuildError(
                f"{path} is truncated: it has {size} bytes, its header names "
                f"{max(start + length, base + data_size)}."
            )
        source.seek(0)
        flatbuffer = source.read(start + length)
    try:
        root = schema.data_class("FlatTensorT").InitFromPackedBuf(flatbuffer)
        found: dict[str, tuple[Piece, Layout | None]] = {}
        for item in root.namedData or []:
            segment = root.segments[item.segmentIndex]
            if base + segment.offset + segment.size > size:
                raise ValueError(f"the data of {item.key!r} ends after the file")
            piece = Piece(segment.size, path=path, offset=base + segment.offset)
            found[item.key.decode()] = (piece, _layout_of(item.tensorLayout))
    except Exception as error:
        raise BuildError(f"{path} is damaged: its tables can't be read ({error}).") from error
    return found


def _layout_of(table: Any) -> Layout | None:
    if table is None:
        return None
    return Layout(
        int(table.scalarType),
        tuple(int(n) for n in table.sizes if n is not None) if table.sizes is not None else (),
        tuple(int(n) for n in table.dimOrder) if table.dimOrder is not None else (),
    )
