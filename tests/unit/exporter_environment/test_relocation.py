"""Library search paths of the copied interpreter: reading them, and deciding on new ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from exporter_environment import elf, macho, relocation
from exporter_environment.elf import Dynamic

TO_LIB = "$ORIGIN/../lib"
COPIED = {"libpython3.11.so.1.0", "libz.so.1"}


def make_elf(path: Path, tags: list[tuple[int, str]]) -> Path:
    """Writes a minimal 64-bit ELF file with a dynamic section of these strings."""
    base, start = 0x400000, 64 + 2 * 56
    strings, entries = b"\0", []
    for tag, text in tags:
        entries.append((tag, len(strings)))
        strings += text.encode() + b"\0"
    size = (len(entries) + 2) * 16
    entries += [(5, base + start + size), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    total = start + len(dynamic) + len(strings)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, total, total, 4096)
    at = base + start
    section = struct.pack("<IIQQQQQQ", 2, 6, start, at, at, len(dynamic), len(dynamic), 8)
    path.write_bytes(header + load + section + dynamic + strings)
    return path


def test_read(tmp_path: Path) -> None:
    """Needed libraries, own name and search paths."""
    file = make_elf(
        tmp_path / "a.so",
        [(1, "libz.so.1"), (1, "libc.so.6"), (14, "liba.so.1"), (15, "/opt/lib"), (29, "/r")],
    )
    assert elf.is_elf(file)
    assert elf.read(file) == Dynamic(("libz.so.1", "libc.so.6"), "liba.so.1", "/opt/lib", "/r")


def test_not_elf(tmp_path: Path) -> None:
    """Anything else is an error, not nonsense."""
    file = tmp_path / "a.so"
    file.write_bytes(b"!<arch>\n")
    assert not elf.is_elf(file)
    with pytest.raises(ValueError, match="not a 64-bit"):
        elf.read(file)


@pytest.mark.parametrize(
    ("dynamic", "wanted"),
    [
        # libpython is shared and found by an absolute path
        (Dynamic(("libpython3.11.so.1.0",), "", "", "/home/me/python/lib"), TO_LIB),
        (Dynamic(("libpython3.11.so.1.0",), "", "/home/me/python/lib", ""), TO_LIB),
        # ... or by no path at all, as the system's
        (Dynamic(("libpython3.11.so.1.0", "libc.so.6"), "", "", ""), TO_LIB),
        # a RUNPATH doesn't count for what extension modules need
        (Dynamic(("libpython3.11.so.1.0",), "", "", TO_LIB), TO_LIB),
        # static, nothing to find
        (Dynamic(("libc.so.6", "libm.so.6"), "", "", ""), None),
        # static, but with copied libraries
        (Dynamic(("libz.so.1", "libc.so.6"), "", "", ""), TO_LIB),
        # made to be moved already
        (Dynamic(("libpython3.11.so.1.0",), "", TO_LIB, ""), None),
        (Dynamic(("libz.so.1",), "", f"$ORIGIN:{TO_LIB}", ""), None),
        # an absolute path that finds nothing we need would still look outside
        (Dynamic(("libc.so.6",), "", "", "/home/me/python/lib"), TO_LIB),
    ],
)
def test_search_path(dynamic: Dynamic, wanted: str | None) -> None:
    """A file is changed when it would look outside, and only then."""
    assert relocation.search_path(dynamic, COPIED, TO_LIB) == wanted


def test_system_libraries_are_not_copied() -> None:
    """The C library belongs to the machine; others come along."""
    for name in ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6"):
        assert relocation.is_system(name)
    for name in ("libcrypt.so.1", "libssl.so.3", "libffi.so.8", "libpython3.11.so.1.0"):
        assert not relocation.is_system(name)


def test_otool() -> None:
    """The libraries in otool's output."""
    said = (
        "/x/bin/python3.11:\n"
        "\t@rpath/libpython3.11.dylib (compatibility version 3.11.0, current version 3.11.0)\n"
        "\t/usr/lib/libSystem.B.dylib (compatibility version 1.0.0, current version 1351.0.0)\n"
    )
    assert macho.dependencies(said) == ["@rpath/libpython3.11.dylib", "/usr/lib/libSystem.B.dylib"]
