"""Reading of ELF files: which shared libraries they need and where they look for them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PT_LOAD, _PT_DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29


@dataclass(frozen=True)
class Dynamic:
    """The dynamic section of a program or library, as far as libraries are found through it."""

    needed: tuple[str, ...]
    soname: str
    rpath: str
    runpath: str


def is_elf(path: Path) -> bool:
    """Whether a file begins as an ELF file does."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read(path: Path) -> Dynamic:
    """Reads the dynamic section; ValueError for what isn't a 64-bit little-endian ELF file."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    segments = list(_segments(data))
    dynamic = next((s for s in segments if s[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return Dynamic((), "", "", "")
    entries = []
    for at in range(dynamic[1], dynamic[1] + dynamic[3], 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == 0:
            break
        entries.append((tag, value))
    strings = _file_offset(segments, next(value for tag, value in entries if tag == _STRTAB))

    def text(offset: int) -> str:
        start = strings + offset
        return data[start : data.index(b"\0", start)].decode()

    def one(wanted: int) -> str:
        return next((text(value) for tag, value in entries if tag == wanted), "")

    needed = tuple(text(value) for tag, value in entries if tag == _NEEDED)
    return Dynamic(needed, one(_SONAME), one(_RPATH), one(_RUNPATH))


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Program headers: type, offset in the file, address, size in the file."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, start + index * size
        )
        yield kind, offset, address, length


def _file_offset(segments: list[tuple[int, int, int, int]], address: int) -> int:
    for kind, offset, start, size in segments:
        if kind == _PT_LOAD and start <= address < start + size:
            return address - start + offset
    raise ValueError(f"no segment holds address {address:#x}")
