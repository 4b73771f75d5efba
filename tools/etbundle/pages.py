"""Lays out shared libraries for pages of 16 KiB, which Android 15 and later may have.

A kernel maps whole pages, each with one set of permissions. A library that was linked for pages of
4 KiB does not load where a larger page would hold the end of one segment and the start of the next.
Addresses cannot change, because code refers to data by distance. The layout of the file can: here
each byte goes to the offset that equals its address, and a page that two segments share becomes
part of one of them.

The invariant: at each address that the library's segments covered, a loader finds the same byte,
which can be read, and which can be written or executed where it could before. Only data that lies
in a segment of code, such as tables for exceptions, may lose the permission to be executed. A page
that would have to be both writable and executable has no layout, since Android maps no such page.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

PAGE = 16384

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = 64
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NULL, _LOAD, _RELRO = 0, 1, 0x6474E552
_EXECUTE, _WRITE = 1, 2
_SECTION_ALLOCATED, _SECTION_EXECUTABLE = 2, 4
_SECTION_NO_BITS = 8
# The file grows by gaps between segments, and by zeros in the middle.
_MAX_GROWTH = 64 << 20


class CannotAlign(Exception):
    """A library has no layout for pages of 16 KiB; the text says why, and follows "because"."""


@dataclass(frozen=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    size: int
    alignment: int

    @property
    def end(self) -> int:
        return self.address + self.size

    @property
    def file_end(self) -> int:
        return self.address + self.file_size


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


@dataclass(frozen=True)
class _Region:
    """Whole pages with the same permissions."""

    start: int
    end: int
    flags: int


def aligned(data: bytes) -> bytes:
    """A library whose segments are aligned to pages of 16 KiB.

    Args:
        data: a 64-bit ELF file; others have no segments and are returned as they are.

    Returns:
        The same bytes if the library is aligned.

    Raises:
        CannotAlign: there is no such layout.
    """
    if not data.startswith(_MAGIC):
        return data
    try:
        segments, sections = _tables(data)
        loads = [segment for segment in segments if segment.kind == _LOAD]
        if all(_is_aligned(load) for load in loads):
            return data
        return _written(data, segments, sections, _regions(loads, sections))
    except (struct.error, OverflowError) as error:
        raise CannotAlign("its headers are damaged") from error


def _is_aligned(load: _Segment) -> bool:
    return load.alignment >= PAGE and (load.offset - load.address) % PAGE == 0


def _tables(data: bytes) -> tuple[list[_Segment], list[_Section]]:
    segment_offset, section_offset = struct.unpack_from("<QQ", data, 32)
    _, segment_count, _, section_count = struct.unpack_from("<HHHH", data, 54)
    segments = [
        _Segment(*_SEGMENT.unpack_from(data, segment_offset + i * _SEGMENT.size))
        for i in range(segment_count)
    ]
    sections = [
        _Section(*_SECTION.unpack_from(data, section_offset + i * _SECTION.size))
        for i in range(section_count)
    ]
    loads = [segment for segment in segments if segment.kind == _LOAD]
    for before, after in zip(loads, loads[1:], strict=False):
        if after.address < before.end:
            raise CannotAlign("its segments overlap, or are not in order")
    for load in loads:
        if load.offset + load.file_size > len(data) or load.file_size > load.size:
            raise CannotAlign("its headers are damaged")
    if loads and (loads[0].offset or loads[0].address):
        raise CannotAlign("its first segment does not begin with the file")
    return segments, sections


def _regions(loads: list[_Segment], sections: list[_Section]) -> list[_Region]:
    code = _code(loads, sections)
    regions: list[_Region] = []
    for load in loads:
        start, end = load.address // PAGE * PAGE, -(-load.end // PAGE) * PAGE
        if regions and start < regions[-1].end:
            last = regions.pop()
            flags = _shared(start, last.flags | load.flags, code)
            if last.start < start:
                regions.append(replace(last, end=start))
            regions.append(_Region(start, start + PAGE, flags))
            start += PAGE
        if start < end:
            regions.append(_Region(start, end, load.flags))
    merged: list[_Region] = []
    for region in regions:
        if merged and (merged[-1].end, merged[-1].flags) == (region.start, region.flags):
            region = replace(region, start=merged.pop().start)
        merged.append(region)
    if len(merged) > len(loads):
        raise CannotAlign("it has too few segments for the permissions of its pages")
    return merged


def _code(loads: list[_Segment], sections: list[_Section]) -> list[tuple[int, int]]:
    """Addresses that are executed: those of sections, or of segments if no section says so."""
    executable = [
        (section.address, section.address + section.size)
        for section in sections
        if section.flags & _SECTION_EXECUTABLE
    ]
    return executable or [(load.address, load.end) for load in loads if load.flags & _EXECUTE]


def _shared(page: int, flags: int, code: list[tuple[int, int]]) -> int:
    """The permissions of a page that several segments share."""
    if not (flags & _WRITE and flags & _EXECUTE):
        return flags
    if any(start < page + PAGE and end > page for start, end in code):
        raise CannotAlign(f"code and writable data share the page at address {page:#x}")
    return flags & ~_EXECUTE


def _written(
    data: bytes, segments: list[_Segment], sections: list[_Section], regions: list[_Region]
) -> bytes:
    loads = [segment for segment in segments if segment.kind == _LOAD]
    size = max(load.file_end for load in loads)
    if size > len(data) + _MAX_GROWTH:
        raise CannotAlign("its segments are too far apart")
    output = bytearray(size)
    for load in loads:
        output[load.address : load.file_end] = data[load.offset : load.offset + load.file_size]
    (table,) = struct.unpack_from("<Q", data, 32)
    if table + len(segments) * _SEGMENT.size > loads[0].file_size:
        raise CannotAlign("its first segment lacks the table of segments")
    mapped = iter(_mapped(region, loads) for region in regions)
    for i, segment in enumerate(segments):
        placed = next(mapped, None) if segment.kind == _LOAD else _moved(segment, loads)
        values = placed and vars(placed).values()
        _SEGMENT.pack_into(output, table + i * _SEGMENT.size, *(values or [_NULL] + [0] * 7))
    _append_sections(data, sections, output)
    return bytes(output)


def _mapped(region: _Region, loads: list[_Segment]) -> _Segment:
    inside = [load for load in loads if load.address < region.end and load.end > region.start]
    end = max(min(load.end, region.end) for load in inside)
    file_end = max(min(load.file_end, region.end) for load in inside)
    start = region.start
    file_size = max(0, file_end - start)
    return _Segment(_LOAD, region.flags, start, start, start, file_size, end - start, PAGE)


def _moved(segment: _Segment, loads: list[_Segment]) -> _Segment | None:
    """A segment that describes a part of the mapped ones; None: it does not apply any more."""
    if segment.size == 0 and segment.file_size == 0:
        return segment
    if segment.kind == _RELRO:
        # Loaders round it outwards, so it holds whole pages only: written data surrounds it.
        start, end = segment.address // PAGE * PAGE, segment.end // PAGE * PAGE
        if any(
            load.flags & _WRITE and load.address < segment.address and load.end > start
            for load in loads
        ):
            start = -(-segment.address // PAGE) * PAGE
        sizes = {"file_size": end - start, "size": end - start}
        moved = replace(segment, offset=start, address=start, physical=start, **sizes)
        return moved if end > start else None
    is_mapped = any(
        load.address <= segment.address and segment.file_end <= load.file_end for load in loads
    )
    if segment.file_size and not is_mapped:
        raise CannotAlign(f"its segment of the kind {segment.kind:#x} is not loaded")
    return replace(segment, offset=segment.address, physical=segment.address)


def _append_sections(data: bytes, sections: list[_Section], output: bytearray) -> None:
    """Appends what is not loaded, and the table of sections. Debuggers read it, loaders do not."""
    moved = []
    for section in sections:
        offset = section.address
        if not section.flags & _SECTION_ALLOCATED:
            output += bytes(-len(output) % max(section.alignment, 1))
            offset = len(output)
            if section.kind not in (_NULL, _SECTION_NO_BITS):
                output += data[section.offset : section.offset + section.size]
        moved.append(replace(section, offset=0 if section.kind == _NULL else offset))
    output += bytes(-len(output) % 8)
    struct.pack_into("<Q", output, 40, len(output) if sections else 0)
    for section in moved:
        output += _SECTION.pack(*vars(section).values())
