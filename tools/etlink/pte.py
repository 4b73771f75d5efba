"""Reads and writes .pte files: a program's tables (program.fbs) with a header, then its segments.

What is written has the bytes that upstream's `serialize_pte_binary` writes for the same tables and
segments. `assemble.py` decides what goes into them. A file that is read may come from anywhere: its
tables are checked (`program_check.py`) before anything uses them. Its segments stay on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from etbuild.errors import BuildError

from etlink import schema
from etlink.container import (
    REBUILD,
    Piece,
    Segment,
    aligned,
    insert_header,
    lay_out,
    read_head,
    read_tables,
    write_segments,
)
from etlink.flatbuffer import DamagedError
from etlink.program_check import check_program

SEGMENT_ALIGNMENT = 128

_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")


@dataclass(frozen=True)
class ProgramFile:
    """A .pte file, read.

    Attributes:
      path: the file.
      program: a ProgramT (program.fbs).
      segments: offset in the file and size of each segment, in bytes.
    """

    path: Path
    program: Any
    segments: tuple[tuple[int, int], ...]

    def piece(self, index: int) -> Piece:
        """The bytes of a segment."""
        offset, size = self.segments[index]
        return Piece(size, path=self.path, offset=offset)


def read(path: Path) -> ProgramFile:
    """Reads a .pte file's tables; its segments stay on disk.

    Raises:
      BuildError: the file is missing, not a .pte file, truncated or damaged.
    """
    head, size = read_head(path, "program", schema.PROGRAM_IDENTIFIER)
    program_size, base = _header(head, size)
    flatbuffer = read_tables(path, size, program_size, base)
    try:
        program = schema.unpack_program(flatbuffer)
    except Exception as error:  # The generated code raises whatever damaged numbers lead to.
        raise BuildError(
            f"{path} is damaged: its tables cannot be read ({error}).", REBUILD
        ) from error
    if any(s.size for s in program.segments or []) and not base:
        raise BuildError(
            f"{path} is damaged: it has segments, but no header that says where they begin.",
            REBUILD,
        )
    segments = []
    for number, segment in enumerate(program.segments or []):
        end = base + segment.offset + segment.size
        if end > size:
            raise BuildError(
                f"{path} is truncated: segment {number} ends at byte {end}, the file at {size}.",
                REBUILD,
            )
        segments.append((base + segment.offset, segment.size))
    try:
        check_program(program, [length for _, length in segments])
    except DamagedError as error:
        raise BuildError(f"{path} is damaged: {error}.", REBUILD) from error
    return ProgramFile(path, program, tuple(segments))


def _header(head: bytes, size: int) -> tuple[int, int]:
    """Size of the tables and offset of the segments; without a header the file is all tables."""
    if len(head) < 8 + _HEADER.size:
        return size, 0
    magic, _, program_size, base, _ = _HEADER.unpack_from(head, 8)
    return (program_size, base) if magic == _MAGIC else (size, 0)


def write(
    out: BinaryIO,
    program: Any,
    segments: Sequence[Segment],
    segment_alignment: int = SEGMENT_ALIGNMENT,
    tensor_alignment: int = schema.INLINE_ALIGNMENT,
    delegate_alignment: int = schema.INLINE_ALIGNMENT,
) -> bytes:
    """Writes a program and its segments as upstream's `serialize_pte_binary` lays them out.

    Args:
      out: where to; written in order, in bounded memory.
      program: a ProgramT; its `segments` are set here.
      segments: in the order in which the program refers to them.
      segment_alignment: bytes.
      tensor_alignment: of constants in the tables, bytes.
      delegate_alignment: of payloads in the tables, bytes.

    Returns:
      What precedes the segments: header and tables.
    """
    offsets = lay_out(segments, segment_alignment)
    data_segment = schema.program_class("DataSegmentT")
    program.segments = []
    for start, size in offsets:
        entry = data_segment()
        entry.offset, entry.size = start, size
        program.segments.append(entry)
    flatbuffer = schema.pack_program(program, tensor_alignment, delegate_alignment)
    data_size = sum(offsets[-1]) if offsets else 0
    if not data_size:
        out.write(flatbuffer)
        return flatbuffer
    # What the tables align stays aligned behind the header.
    header_size = aligned(_HEADER.size, max(tensor_alignment, delegate_alignment))
    program_size = header_size + len(flatbuffer)
    base = aligned(program_size, segment_alignment)
    header = _HEADER.pack(_MAGIC, _HEADER.size, program_size, base, data_size)
    head = insert_header(flatbuffer, header.ljust(header_size, b"\0"))
    out.write(head)
    out.write(bytes(base - program_size))
    write_segments(out, segments, offsets)
    return head
