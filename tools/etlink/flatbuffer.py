"""Reads flatbuffers of unknown origin: checks every access, and limits all of them together.

The flatbuffers library reads without checks: an offset that leads before the buffer counts from its
end, a string that ends after it is cut off, and a small file whose vectors overlap takes forever.
So generated code reads through `Table` below, which replaces the library's own (`schema.py`).
"""

from __future__ import annotations

import flatbuffers.table
from flatbuffers import number_types

# The cost of a table; an element of a vector or a byte of a string costs 1.
_TABLE_COST = 4
# The budget by byte of a buffer. Generated code visits a table up to three times.
_BUDGET_PER_BYTE = 4
_MIN_BUDGET = 4096


class DamagedError(ValueError):
    """A flatbuffer is malformed; the message is half a sentence."""


class Buffer(bytes):
    """The bytes of a flatbuffer, with a budget for reading them.

    In a flatbuffer that a program wrote, no two tables or vectors overlap, so reading all of it
    costs about as much as it has bytes. If reading costs more, tables refer to the same bytes again
    and again.

    Example:

        root = Table(Buffer(data), struct.unpack_from("<I", data)[0])
    """

    left: int

    def __new__(cls, data: bytes) -> Buffer:
        """Takes the bytes of a whole flatbuffer."""
        buffer = super().__new__(cls, data)
        buffer.left = _BUDGET_PER_BYTE * len(data) + _MIN_BUDGET
        return buffer

    def spend(self, units: int) -> None:
        """Counts a visit.

        Raises:
          DamagedError: the budget is exceeded.
        """
        self.left -= units
        if self.left < 0:
            raise DamagedError("its tables or vectors overlap")


class Table(flatbuffers.table.Table):
    """A table of a flatbuffer; replaces the library's own.

    Raises:
      DamagedError: from all methods: an access leads outside of the buffer; it is a `Buffer` and
        was read too often.
    """

    __slots__ = ()

    def __init__(self, buf: bytes | bytearray, pos: int) -> None:
        self.Bytes = buf
        self.Pos = pos
        if type(buf) is Buffer:
            buf.spend(_TABLE_COST)

    def Get(self, flags: type, off: int) -> int | float | bool:
        """A number."""
        if not 0 <= off <= len(self.Bytes) - flags.bytewidth:
            raise DamagedError(f"an offset leads to byte {off}, but they end at {len(self.Bytes)}")
        return flags.packer_type.unpack_from(self.Bytes, off)[0]

    def Indirect(self, off: int) -> int:
        """Returns the position that an offset leads to."""
        return off + self.Get(number_types.UOffsetTFlags, off)

    def String(self, off: int) -> bytes:
        """A string, by the position of its offset."""
        start, length = self._run(off)
        return bytes(self.Bytes[start : start + length])

    def VectorLen(self, off: int) -> int:
        """Elements of a vector, by the position of its offset in the table."""
        return self._run(off + self.Pos)[1]

    def Vector(self, off: int) -> int:
        """Returns where a vector's elements begin, by the position of its offset in the table."""
        return self.Indirect(off + self.Pos) + 4

    def Union(self, t2: flatbuffers.table.Table, off: int) -> None:
        """Makes `t2` the content of a union, by the position of its offset in the table."""
        t2.Pos = self.Indirect(off + self.Pos)
        t2.Bytes = self.Bytes

    def _run(self, at: int) -> tuple[int, int]:
        """Start and length of a string or vector, by the position of its offset."""
        start = self.Indirect(at)
        length = self.Get(number_types.UOffsetTFlags, start)
        start += 4
        # No element is smaller than a byte.
        if length > len(self.Bytes) - start:
            raise DamagedError(
                f"a vector or string of {length} elements at byte {start} ends after them, at "
                f"{len(self.Bytes)}"
            )
        if type(self.Bytes) is Buffer:
            self.Bytes.spend(length)
        return start, length


# Fields of tables that have no generated classes, by their number in the schema.


def offset_of(table: Table, field: int) -> int:
    """Offset of a field in its table; 0: the field has its default."""
    return table.Offset(4 + 2 * field)


def number(table: Table, field: int, flags: type, default: int = 0) -> int | float:
    """A number; `flags` says of what type it is."""
    offset = offset_of(table, field)
    return table.Get(flags, table.Pos + offset) if offset else default


def numbers_of(table: Table, field: int, flags: type, width: int) -> tuple[int, ...]:
    """A vector of integers, each `width` bytes wide."""
    offset = offset_of(table, field)
    if not offset:
        return ()
    start = table.Vector(offset)
    return tuple(int(table.Get(flags, start + width * n)) for n in range(table.VectorLen(offset)))


def text_of(table: Table, field: int) -> str:
    """A string; empty where it is absent."""
    offset = offset_of(table, field)
    return table.String(table.Pos + offset).decode() if offset else ""


def field_table(table: Table, field: int) -> Table | None:
    """A table, or the content of a union."""
    offset = offset_of(table, field)
    return Table(table.Bytes, table.Indirect(table.Pos + offset)) if offset else None


def field_tables(table: Table, field: int) -> list[Table]:
    """A vector of tables."""
    offset = offset_of(table, field)
    if not offset:
        return []
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * n)) for n in range(table.VectorLen(offset))
    ]
