"""The tables of a .ptd file: flat_tensor.fbs, written and read with the flatbuffers library.

Upstream has no generated classes for this schema (executorch/extension/flat_tensor/serialize), only
flatc's JSON; it has four tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers
from flatbuffers import number_types

from etlink.fields import field_table, field_tables, number, numbers_of, text_of
from etlink.flatbuffer import Buffer, Table

IDENTIFIER = b"FT01"


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

    def described(self) -> str:
        """For messages: "type 6 [2, 3], dimensions [0, 1]"."""
        return f"type {self.scalar_type} {_some(self.sizes)}, dimensions {_some(self.dim_order)}"


def _some(numbers: Sequence[int], most: int = 20) -> str:
    """A list for messages; a made-up one may be endless."""
    shown = ", ".join(str(n) for n in numbers[:most])
    return f"[{shown}{', …' if len(numbers) > most else ''}]"


@dataclass(frozen=True)
class Named:
    """One key: its segment and, for a tensor, its layout."""

    key: str
    segment: int
    layout: Layout | None = None


def pack(segments: Sequence[tuple[int, int]], named: Sequence[Named]) -> bytes:
    """Writes the tables.

    Args:
      segments: offset from the segment base and size of each, in bytes.
      named: the keys, in the file's order.
    """
    builder = flatbuffers.Builder()
    named_tables = [_pack_named(builder, item) for item in named]
    segment_tables = [_pack_segment(builder, *item) for item in segments]
    named_vector = _vector(builder, named_tables)
    segment_vector = _vector(builder, segment_tables)
    builder.StartObject(3)
    builder.PrependUint32Slot(0, 0, 0)
    builder.PrependUOffsetTRelativeSlot(1, segment_vector, 0)
    builder.PrependUOffsetTRelativeSlot(2, named_vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def unpack(data: bytes) -> tuple[list[tuple[int, int]], list[Named]]:
    """Reads the tables of a file, whose header lies between identifier and tables.

    Returns:
      Offsets and sizes of the segments, and the keys.

    Raises:
      DamagedError: the data are no such tables.
    """
    buffer = Buffer(data)
    root = Table(buffer, Table(buffer, 0).Indirect(0))
    segments = [
        (number(t, 0, number_types.Uint64Flags), number(t, 1, number_types.Uint64Flags))
        for t in field_tables(root, 1)
    ]
    named = []
    for table in field_tables(root, 2):
        key = text_of(table, 0)
        named.append(Named(key, number(table, 1, number_types.Uint32Flags), _layout(table)))
    return segments, named


def _pack_named(builder: flatbuffers.Builder, item: Named) -> int:
    key = builder.CreateString(item.key)
    layout = _pack_layout(builder, item.layout) if item.layout else 0
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, key, 0)
    builder.PrependUint32Slot(1, item.segment, 0)
    builder.PrependUOffsetTRelativeSlot(2, layout, 0)
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


def _vector(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def _layout(table: Table) -> Layout | None:
    layout = field_table(table, 2)
    if layout is None:
        return None
    return Layout(
        number(layout, 0, number_types.Int8Flags),
        numbers_of(layout, 1, number_types.Int32Flags, 4),
        numbers_of(layout, 2, number_types.Uint8Flags, 1),
    )
