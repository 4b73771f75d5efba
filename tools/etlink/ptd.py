"""Reads and writes .ptd files: named data that programs load at run time.

A .ptd file is a flatbuffer (flat_tensor.fbs) with a header inside of it, then segments. The tables
map each key to a segment and, for tensors, to a layout. Upstream has no generated classes for this
schema (executorch/extension/flat_tensor/serialize), only flatc's JSON; it has four tables, which
are written and read here with the flatbuffers library.

The same data give the same file: keys are sorted, and a segment's offset follows from the first key
that needs it. Equal bytes are stored once, aligned for the strictest of their keys. Readers check
every offset, and that a tensor is as long as its bytes, because a runtime would read beyond them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import flatbuffers
from etbuild.errors import BuildError
from flatbuffers import number_types

from etlink.container import (
    REBUILD,
    Piece,
    Segment,
    aligned,
    common_alignment,
    insert_header,
    lay_out,
    read_head,
    read_tables,
    write_segments,
)
from etlink.flatbuffer import (
    Buffer,
    DamagedError,
    Table,
    field_table,
    field_tables,
    number,
    numbers_of,
    text_of,
)
from etlink.named_data import Layout, NamedData
from etlink.tables import MAX_DIMENSIONS, SCALAR_TYPES

IDENTIFIER = b"FT01"
SCHEMA_VERSION = 0
SEGMENT_ALIGNMENT = 128

_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ")
_HEADER_ALIGNMENT = 16


def write(
    out: BinaryIO,
    data: Sequence[tuple[NamedData, Piece]],
    segment_alignment: int = SEGMENT_ALIGNMENT,
) -> None:
    """Writes a .ptd file, in bounded memory.

    Args:
      out: where to.
      data: what to write, in any order, with its bytes.
      segment_alignment: bytes.

    Raises:
      BuildError: the data ask for an alignment that is too large.
    """
    alignments: dict[str, int] = {}
    for item, _ in data:
        alignments[item.sha256] = math.lcm(alignments.get(item.sha256, 1), item.alignment)
    segments: list[Segment] = []
    segment_of: dict[str, int] = {}
    keys = []
    for item, piece in sorted(data, key=lambda pair: pair[0].key):
        if item.sha256 not in segment_of:
            segment_of[item.sha256] = len(segments)
            segments.append(Segment((piece,), alignments[item.sha256]))
        keys.append((item.key, segment_of[item.sha256], item.layout))
    offsets = lay_out(segments, segment_alignment)
    flatbuffer = _pack(offsets, keys)
    header_size = aligned(_HEADER.size, _HEADER_ALIGNMENT)
    # Offsets count from here: segments are aligned in the file where this is.
    base = aligned(len(flatbuffer) + header_size, common_alignment(segments, segment_alignment))
    data_size = sum(offsets[-1]) if offsets else 0
    header = _HEADER.pack(_MAGIC, _HEADER.size, header_size, len(flatbuffer), base, data_size)
    out.write(insert_header(flatbuffer, header.ljust(header_size, b"\0")))
    out.write(bytes(base - header_size - len(flatbuffer)))
    write_segments(out, segments, offsets)


def read(path: Path) -> dict[str, tuple[Piece, Layout | None]]:
    """Reads the keys of a .ptd file; the data stay on disk.

    Returns:
      Key to bytes and layout.

    Raises:
      BuildError: the file is missing, not a .ptd file, truncated, damaged, or of a newer schema.
    """
    head, size = read_head(path, "data file", IDENTIFIER, _HEADER.size)
    magic, _, start, length, base, data_size = _HEADER.unpack_from(head, 8)
    if magic != _MAGIC:
        raise BuildError(f"{path} is damaged: its header has no {_MAGIC!r}.", REBUILD)
    flatbuffer = read_tables(path, size, start + length, base + data_size)
    try:
        version, segments, keys = _unpack(flatbuffer)
        if version > SCHEMA_VERSION:
            raise BuildError(
                f"{path}: schema version: got {version}, expected at most {SCHEMA_VERSION}, the "
                "newest that these rules read.",
                "Use a newer version of rules_executorch.",
            )
        return _pieces(path, base, size, segments, keys)
    except ValueError as error:
        raise BuildError(
            f"{path} is damaged: its tables cannot be read ({error}).", REBUILD
        ) from error


def _pieces(
    path: Path,
    base: int,
    size: int,
    segments: Sequence[tuple[int, int]],
    keys: Sequence[tuple[str, int, Layout | None]],
) -> dict[str, tuple[Piece, Layout | None]]:
    pieces: dict[str, tuple[Piece, Layout | None]] = {}
    for key, segment, layout in keys:
        if segment >= len(segments):
            raise DamagedError(f"the data of {key!r} are segment {segment} of {len(segments)}")
        offset, length = segments[segment]
        if base + offset + length > size:
            raise DamagedError(f"the data of {key!r} end after the file")
        if key in pieces:
            raise DamagedError(f"two keys are {key!r}")
        piece = Piece(length, path=path, offset=base + offset)
        if layout:
            _check_layout(path, key, piece, layout)
        pieces[key] = (piece, layout)
    return pieces


def _check_layout(path: Path, key: str, piece: Piece, layout: Layout) -> None:
    """Fails for a tensor that is not as long as its bytes."""
    _, width = SCALAR_TYPES.get(layout.scalar_type, ("", 0))
    fits = (
        width
        and len(layout.sizes) <= MAX_DIMENSIONS
        and min(layout.sizes, default=0) >= 0
        and width * math.prod(layout.sizes) == piece.size
    )
    if fits and sorted(layout.dim_order) == list(range(len(layout.sizes))):
        return
    raise BuildError(
        f'{path} is damaged: "{key}" has {piece.size} bytes, and its layout is '
        f"{layout.describe()}.",
        REBUILD,
    )


def _pack(
    segments: Sequence[tuple[int, int]], keys: Sequence[tuple[str, int, Layout | None]]
) -> bytes:
    """Writes the tables: offset and size of each segment; key, segment and layout of each key."""
    builder = flatbuffers.Builder()
    key_tables = [_pack_key(builder, *key) for key in keys]
    segment_tables = [_pack_segment(builder, *segment) for segment in segments]
    key_vector = _pack_vector(builder, key_tables)
    segment_vector = _pack_vector(builder, segment_tables)
    builder.StartObject(3)
    builder.PrependUint32Slot(0, SCHEMA_VERSION, 0)
    builder.PrependUOffsetTRelativeSlot(1, segment_vector, 0)
    builder.PrependUOffsetTRelativeSlot(2, key_vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _pack_key(builder: flatbuffers.Builder, key: str, segment: int, layout: Layout | None) -> int:
    key_string = builder.CreateString(key)
    layout_table = _pack_layout(builder, layout) if layout else 0
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, key_string, 0)
    builder.PrependUint32Slot(1, segment, 0)
    builder.PrependUOffsetTRelativeSlot(2, layout_table, 0)
    return builder.EndObject()


def _pack_layout(builder: flatbuffers.Builder, layout: Layout) -> int:
    builder.StartVector(4, len(layout.sizes), 4)
    for size in reversed(layout.sizes):
        builder.PrependInt32(size)
    sizes = builder.EndVector()
    dim_order = builder.CreateByteVector(bytes(layout.dim_order))
    builder.StartObject(3)
    builder.PrependInt8Slot(0, layout.scalar_type, 0)
    builder.PrependUOffsetTRelativeSlot(1, sizes, 0)
    builder.PrependUOffsetTRelativeSlot(2, dim_order, 0)
    return builder.EndObject()


def _pack_segment(builder: flatbuffers.Builder, offset: int, size: int) -> int:
    builder.StartObject(2)
    builder.PrependUint64Slot(0, offset, 0)
    builder.PrependUint64Slot(1, size, 0)
    return builder.EndObject()


def _pack_vector(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def _unpack(
    flatbuffer: bytes,
) -> tuple[int, list[tuple[int, int]], list[tuple[str, int, Layout | None]]]:
    """Reads what `_pack` writes, with the header between identifier and tables.

    Raises:
      DamagedError: these are not such tables.
    """
    buffer = Buffer(flatbuffer)
    root = Table(buffer, Table(buffer, 0).Indirect(0))
    segments = [
        (number(t, 0, number_types.Uint64Flags), number(t, 1, number_types.Uint64Flags))
        for t in field_tables(root, 1)
    ]
    keys = [
        (text_of(t, 0), number(t, 1, number_types.Uint32Flags), _unpack_layout(t))
        for t in field_tables(root, 2)
    ]
    return number(root, 0, number_types.Uint32Flags), segments, keys


def _unpack_layout(table: Table) -> Layout | None:
    layout = field_table(table, 2)
    if layout is None:
        return None
    return Layout(
        scalar_type=number(layout, 0, number_types.Int8Flags),
        sizes=numbers_of(layout, 1, number_types.Int32Flags, 4),
        dim_order=numbers_of(layout, 2, number_types.Uint8Flags, 1),
    )
