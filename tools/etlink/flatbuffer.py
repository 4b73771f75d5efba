"""Flatbuffers of unknown origin: every access is checked, and all of them together are limited.

The flatbuffers library reads without checks: an offset that leads before the buffer counts from its
end, a string that ends after it is cut off, and vectors that lie over each other make a small file
endless.
"""

from __future__ import annotations

import flatbuffers.table
from flatbuffers import number_types

# Units that a table costs; an element of a vector or a byte of a string costs one.
_TABLE = 4
# Units by byte of a buffer. Generated code visits a table up to three times.
_VISITS = 4
_LEAST = 4096


class DamagedError(ValueError):
    """A flatbuffer can't be what a program wrote; the message is half a sentence."""


class Buffer(bytes):
    """The bytes of a flatbuffer, with how much of it may still be read.

    What a program wrote has each table and vector at a place of its own, so that reading all of it
    takes as much as it has bytes. Where more is read, tables refer to the same places again and
    again.

    Example:

        root = Table(Buffer(data), struct.unpack_from("<I", data)[0])
    """

    left: int

    def __new__(cls, data: bytes) -> Buffer:
        """Takes the bytes of a whole flatbuffer."""
        made = super().__new__(cls, data)
        made.left = _VISITS * len(data) + _LEAST
        return made

    def spend(self, units: int) -> None:
        """Counts a visit.

        Raises:
          DamagedError: there were more than there can be.
        """
        self.left -= units
        if self.left < 0:
            raise DamagedError("its tables or vectors lie over each other")


class Table(flatbuffers.table.Table):
    """A table of a flatbuffer; stands in for the library's own.

    Raises:
      DamagedError: from all methods: an access leads outside of the buffer; it is a `Buffer` and
        was read too often.
    """

    __slots__ = ()

    def __init__(self, buf: bytes | bytearray, pos: int) -> None:
        self.Bytes = buf
        self.Pos = pos
        if type(buf) is Buffer:
            buf.spend(_TABLE)

    def Get(self, flags: type, off: int) -> int | float | bool:
        """A number."""
        if not 0 <= off <= len(self.Bytes) - flags.bytewidth:
            raise DamagedError(f"an offset leads to byte {off}, and they end at {len(self.Bytes)}")
        return flags.packer_type.unpack_from(self.Bytes, off)[0]

    def Indirect(self, off: int) -> int:
        """Where an offset leads to."""
        return off + self.Get(number_types.UOffsetTFlags, off)

    def String(self, off: int) -> bytes:
        """A string, by the place of its offset."""
        start, length = self._run(off)
        return bytes(self.Bytes[start : start + length])

    def VectorLen(self, off: int) -> int:
        """Elements of a vector, by the place of its offset in the table."""
        return self._run(off + self.Pos)[1]

    def Vector(self, off: int) -> int:
        """Where the elements of a vector begin, by the place of its offset in the table."""
        return self.Indirect(off + self.Pos) + 4

    def Union(self, t2: flatbuffers.table.Table, off: int) -> None:
        """Makes `t2` the content of a union, by the place of its offset in the table."""
        t2.Pos = self.Indirect(off + self.Pos)
        t2.Bytes = self.Bytes

    def _run(self, at: int) -> tuple[int, int]:
        """Begin and length of a string or vector, by the place of its offset."""
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
