"""Libraries for pages of 16 KiB, compared as a kernel would map them."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle import apps, pages
from etbundle.mobile.apk import native_libraries
from etbundle.pages import PAGE, CannotAlign, aligned

SMALL = 4096
READ, WRITE, EXECUTE = 4, 2, 1
LOAD, RELRO = 1, 0x6474E552


@dataclass
class Part:
    """A segment to write.

    Attributes:
        size: in the file.
        flags: permissions.
        zeros: bytes after it in memory.
        code: bytes of code before its tail.
        tail: bytes after the code.
        relro: about as many of its first bytes are read-only later, up to the end of a page.
    """

    size: int
    flags: int
    zeros: int = 0
    code: int = 0
    tail: int = 0
    relro: int = 0


def library(parts: list[Part], alignment: int = SMALL, *, sections: bool = True) -> bytes:
    """A library whose segments lie as lld lays them: each on a new page, at the next address."""
    body = bytearray(64 + 56 * (len(parts) + 1))
    headers, table = [], [(0, 0, 0, 0)]
    relro = (0,) * 8
    address = 0
    offset = 0
    source = random.Random(len(parts))
    for i, part in enumerate(parts):
        if i:
            offset = len(body)
            address = -(-address // alignment) * alignment + offset % alignment
        size = max(part.size, len(body)) if i == 0 else part.size
        body += source.randbytes(size - (len(body) if i == 0 else 0))
        headers.append(
            (LOAD, part.flags, offset, address, address, size, size + part.zeros, alignment)
        )
        if part.code:
            table.append((1, 2 | 4, address + size - part.tail - part.code, part.code))
        if part.relro:
            kept = part.relro - (address + part.relro) % SMALL
            relro = (RELRO, READ, offset, address, address, kept, kept, 1)
        address += size + part.zeros
    headers.append(relro)
    at = len(body)
    for kind, flags, start, size in table if sections else []:
        body += struct.pack("<IIQQQQIIQQ", 0, kind, flags, start, start, size, 0, 0, 1, 0)
    body[:64] = struct.pack(
        "<7s9xHHIQQQIHHHHHH",
        *(b"\x7fELF\x02\x01\x01", 3, 183, 1, 0, 64, at if sections else 0, 0),
        *(64, 56, len(headers), 64, len(table) if sections else 0, 0),
    )
    for i, header in enumerate(headers):
        struct.pack_into("<IIQQQQQQ", body, 64 + 56 * i, *header)
    return bytes(body)


def segments(data: bytes) -> list[tuple[int, ...]]:
    """Rows of the table of segments."""
    (count,) = struct.unpack_from("<H", data, 56)
    return [struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * i) for i in range(count)]


def mapped(data: bytes, page: int) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes by address and permissions by page, as a loader with such pages makes them."""
    memory: dict[int, int] = {}
    permissions: dict[int, int] = {}
    for kind, flags, offset, address, _, file_size, size, alignment in segments(data):
        if kind != LOAD:
            continue
        assert alignment >= page
        assert (offset - address) % page == 0
        for number in range(address // page, -(-(address + size) // page)):
            assert number not in permissions, "two segments in one page"
            permissions[number] = flags
        content = data[offset : offset + file_size]
        memory.update(zip(range(address, address + file_size), content, strict=True))
        memory.update(dict.fromkeys(range(address + file_size, address + size), 0))
    for kind, _, _, address, _, _, size, _ in segments(data):
        if kind == RELRO:
            for number in range(address // page, -(-(address + size) // page)):
                permissions[number] &= ~WRITE
    return memory, permissions


def random_library(source: random.Random) -> tuple[list[Part], bytes]:
    """A library as one of the linkers writes them: gold, lld, or lld with separate code."""
    size = lambda: source.randrange(1, 3 * PAGE)  # noqa: E731
    relro = source.choice([0, SMALL, SMALL * 6])
    data = Part(SMALL * 6 + size(), READ | WRITE, source.choice([0, size()]), relro=relro)
    tail = source.choice([1, PAGE])
    layouts = [
        [Part(PAGE + size(), READ | EXECUTE, code=source.randrange(1, 1000)), data],
        [Part(PAGE * 2 + size(), READ | EXECUTE, code=9, tail=PAGE), data],
        [Part(size(), READ), Part(size(), READ | WRITE), data],
        [Part(PAGE, READ | EXECUTE, code=9), Part(size(), READ), data],
        [Part(size(), READ), Part(size(), READ | EXECUTE, code=1), data],
        [Part(size(), READ), Part(size(), READ | EXECUTE, code=1), Part(tail, READ), data],
        [
            Part(size(), READ),
            Part(size(), READ | EXECUTE, code=1),
            Part(PAGE + tail, READ),
            data,
            Part(size(), READ | WRITE),
        ],
    ]
    parts = source.choice(layouts)
    return parts, library(parts)


@pytest.mark.parametrize("seed", range(60))
def test_what_a_loader_finds(seed: int) -> None:
    """Every byte where it was, with every permission that it needs, or a reason."""
    parts, before = random_library(random.Random(seed))
    memory, permissions = mapped(before, SMALL)
    code = [(r[2], r[2] + r[3]) for r in _code_of(before)]
    try:
        after = aligned(before)
    except CannotAlign as reason:
        assert "share the page" in str(reason), parts
        assert _conflict(before, code)
        return
    found, given = mapped(after, PAGE)
    # But for the headers, which say where all is.
    assert {a: found[a] for a in memory if a >= 64 + 56 * 8} == {
        a: memory[a] for a in memory if a >= 64 + 56 * 8
    }
    for number, flags in permissions.items():
        now = given[number * SMALL // PAGE]
        assert now & READ
        assert now & WRITE >= flags & WRITE, f"page {number:#x} is not writable"
    for start, end in code:
        for address in (start, end - 1):
            assert given[address // PAGE] & EXECUTE
    assert not any(flags & WRITE and flags & EXECUTE for flags in given.values())
    assert aligned(after) is after


def _code_of(data: bytes) -> list[tuple[int, int, int, int]]:
    at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i) for i in range(count)]
    return [(r[1], r[2], r[3], r[5]) for r in rows if r[2] & 4]


def _conflict(data: bytes, code: list[tuple[int, int]]) -> bool:
    """Some page of 16 KiB has code, and a segment that is written."""
    written = [(s[3], s[3] + s[6]) for s in segments(data) if s[0] == LOAD and s[1] & WRITE]
    return any(
        start // PAGE <= (end - 1) // PAGE and a // PAGE <= (end - 1) // PAGE
        for start, end in code
        for a, _ in written
    )


def test_bytes_that_follow_data_stay_writable() -> None:
    """Data after the read-only part is written in the page that both share."""
    parts = [Part(SMALL, READ), Part(SMALL * 2, READ | WRITE, relro=SMALL)]
    _, permissions = mapped(aligned(library(parts)), PAGE)
    assert permissions[0] & WRITE
    before, written = 2 * PAGE, 3 * PAGE
    parts = [Part(before, READ), Part(written, READ | WRITE, relro=2 * PAGE + SMALL)]
    _, permissions = mapped(aligned(library(parts)), PAGE)
    assert sorted(permissions.values()).count(READ) >= 3


def test_unknown_code() -> None:
    """Without sections, a whole segment may be code."""
    parts = [Part(PAGE + SMALL, READ | EXECUTE, code=8), Part(SMALL, READ | WRITE)]
    with pytest.raises(
        CannotAlign, match="code and writable data share the page at address 0x4000"
    ):
        aligned(library(parts, sections=False))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((54 + 2, b"\xff\xff"), "damaged"),
        ((32, b"\xff" * 8), "damaged"),
        ((64 + 8, b"\x01"), "does not begin with the file"),
        ((64 + 56 + 32, b"\xff" * 7), "damaged"),
        ((64 + 56 + 16, b"\0" * 8), "overlap"),
    ],
)
def test_malformed(change: tuple[int, bytes], reason: str) -> None:
    """Reasons instead of exceptions of Python's."""
    data = bytearray(library([Part(PAGE, READ | EXECUTE, code=8), Part(SMALL, READ | WRITE)]))
    at, new = change
    data[at : at + len(new)] = new
    with pytest.raises(CannotAlign, match=reason):
        aligned(bytes(data))


def test_aligned_already() -> None:
    """Not written anew."""
    data = library([Part(PAGE, READ | EXECUTE), Part(5, READ | WRITE)], PAGE)
    assert aligned(data) is data
    assert aligned(b"no library") == b"no library"


def test_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An APK refuses what an AAR warns of: an AAR knows no targetSdk."""
    good = library([Part(PAGE * 2, READ | EXECUTE, code=8), Part(PAGE, READ | WRITE)])
    bad = library([Part(PAGE + SMALL, READ | EXECUTE, code=8), Part(9, READ | WRITE)])
    (tmp_path / "libgood.so").write_bytes(good)
    (tmp_path / "libbad.so").write_bytes(bad)
    app = apps.App(tmp_path, {"label": "//x:app"}, {"lib/libgood.so": tmp_path / "libgood.so"})
    own = {"arm64-v8a": tmp_path / "libbad.so"}
    entries = native_libraries("jni", {"arm64-v8a": app}, own, must_align=False)
    assert [entry.name for entry in entries] == [
        "jni/arm64-v8a/libgood.so",
        "jni/arm64-v8a/libexecutorch_app.so",
    ]
    assert entries[0].source == pages.aligned(good) != good
    message = (
        "jni/arm64-v8a/libexecutorch_app.so: cannot be aligned to pages of 16 KiB, which apps with "
        "targetSdk 35 need: code and writable data share the page at address 0x4000."
    )
    assert message in capsys.readouterr().err
    with pytest.raises(BuildError, match="lib/arm64-v8a/libexecutorch_app.so: cannot be aligned"):
        native_libraries("lib", {"arm64-v8a": app}, own, must_align=True)
