"""Reads the headers of ELF and Mach-O files that the tests check."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

HERE = Path("tests/integration/cc")

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_RUNPATH = 1, 5, 6, 29
_DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM, _DT_GNU_HASH = (
    0x6FFFFFF0,
    0x6FFFFFFE,
    0x6FFFFFFF,
    0x6FFFFEF5,
)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


class Elf:
    """An ELF file of 64 bits."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        assert self.data[:6] == b"\x7fELF\2\1", f"{path} is not a little-endian ELF file of 64 bits"
        self.kind, self.machine = struct.unpack_from("<HH", self.data, 16)
        table, size, count = (
            *struct.unpack_from("<Q", self.data, 32),
            *struct.unpack_from("<HH", self.data, 54),
        )
        self.segments = [
            struct.unpack_from("<IIQQQQQQ", self.data, table + i * size) for i in range(count)
        ]

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, _, size, _, _ in self.segments:
            if kind == _PT_LOAD and start <= address < start + size:
                return offset + address - start
        raise AssertionError(f"no segment has the address {address:#x}")

    @cached_property
    def interpreter(self) -> str:
        """The dynamic linker."""
        return next((_text(self.data, s[2]) for s in self.segments if s[0] == _PT_INTERP), "")

    @cached_property
    def page_size(self) -> int:
        """The minimum alignment of segments."""
        return min(s[7] for s in self.segments if s[0] == _PT_LOAD)

    @cached_property
    def dynamic(self) -> list[tuple[int, int]]:
        """The dynamic section: tags and values."""
        segment = next(s for s in self.segments if s[0] == _PT_DYNAMIC)
        return list(struct.iter_unpack("<QQ", self.data[segment[2] : segment[2] + segment[5]]))

    def _first(self, tag: int) -> int:
        return next((value for found, value in self.dynamic if found == tag), 0)

    def _string(self, index: int) -> str:
        return _text(self.data, self._offset(self._first(_DT_STRTAB)) + index)

    @cached_property
    def needed(self) -> set[str]:
        """Names of the libraries that it loads."""
        return {self._string(value) for tag, value in self.dynamic if tag == _DT_NEEDED}

    @cached_property
    def versions(self) -> set[str]:
        """Versions of symbols that it needs."""
        found = set()
        at = self._offset(self._first(_DT_VERNEED)) if self._first(_DT_VERNEED) else 0
        for _ in range(self._first(_DT_VERNEEDNUM)):
            _, count, _, first, after = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(count):
                _, _, _, name, more = struct.unpack_from("<IHHII", self.data, entry)
                found.add(self._string(name))
                entry += more
            at += after
        return found

    @cached_property
    def undefined(self) -> set[str]:
        """Imported symbols: those before the hash table's first."""
        first_defined = struct.unpack_from(
            "<I", self.data, self._offset(self._first(_DT_GNU_HASH)) + 4
        )[0]
        table = self._offset(self._first(_DT_SYMTAB))
        names = set()
        for index in range(1, first_defined):
            name, info, _, section = struct.unpack_from("<IBBH", self.data, table + 24 * index)
            if section == 0 and info >> 4 == 1:
                names.add(self._string(name))
        return names


@dataclass
class MachO:
    """A Mach-O file of 64 bits."""

    path: Path
    libraries: set[str] = field(default_factory=set)
    platform: int = 0
    minimum: tuple[int, int] = (0, 0)
    install_name: str = ""
    signed: bool = False
    undefined: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        data = self.path.read_bytes()
        magic, cpu, _, self.kind, count = struct.unpack_from("<IIIII", data)
        assert (magic, cpu) == (0xFEEDFACF, 0x0100000C), f"{self.path} is not Mach-O for arm64"
        at = 32
        for _ in range(count):
            command, size = struct.unpack_from("<II", data, at)
            command &= 0x7FFFFFFF
            if command in (0xC, 0x18):
                self.libraries.add(_text(data, at + struct.unpack_from("<I", data, at + 8)[0]))
            elif command == 0xD:
                self.install_name = _text(data, at + struct.unpack_from("<I", data, at + 8)[0])
            elif command == 0x32:
                self.platform, version = struct.unpack_from("<II", data, at + 8)
                self.minimum = (version >> 16, version >> 8 & 255)
            elif command == 0x1D:
                self.signed = True
            elif command == 2:
                self._read_symbols(data, *struct.unpack_from("<IIII", data, at + 8))
            at += size

    def _read_symbols(self, data: bytes, table: int, count: int, strings: int, _: int) -> None:
        for index in range(count):
            name, kind = struct.unpack_from("<IB", data, table + 16 * index)
            if kind & 0xE == 0 and kind & 1:
                self.undefined.add(_text(data, strings + name))


def glibc_version(version: str) -> tuple[int, ...]:
    """The numbers of a name like GLIBC_2.28."""
    return tuple(int(part) for part in re.sub(r"^\w+?_", "", version).split("."))


def listed(*files: str) -> set[str]:
    """The symbols in lists of the toolchains."""
    lines = [
        line for file in files for line in Path("toolchains/cc", file).read_text().splitlines()
    ]
    return {line for line in lines if not line.startswith("#")}
