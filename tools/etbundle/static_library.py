"""Static libraries: their members, and new libraries of some of them.

The formats are GNU's and BSD's (Apple's). A library's index of symbols is carried over,
so that no object has to be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError
from etlink.container import write_atomically

_MAGIC = b"!<arch>\n"
_HEADER = struct.Struct("16s12s6s6s8s10s2s")
_END = b"`\n"
_BSD_LONG_NAME = "#1/"
_BSD_INDEXES = ("__.SYMDEF", "__.SYMDEF SORTED")
_BSD_INDEXES_64 = ("__.SYMDEF_64", "__.SYMDEF_64 SORTED")


@dataclass(frozen=True)
class Member:
    """An object in a library.

    Attributes:
        name: of its file.
        data: its bytes.
        symbols: names in the library's index that it defines.
    """

    name: str
    data: bytes
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Raw:
    position: int
    name: str
    data: bytes


def read(path: Path) -> list[Member]:
    """The objects of a static library.

    Raises:
        BuildError: it is not a static library, is damaged, or refers to objects in other files (a
            thin archive).
    """
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        raise BuildError(
            f"{path} is not a static library: got {data[:8]!r} as the first bytes, expected "
            f"{_MAGIC!r}.",
            "A thin archive holds no objects. Make one with `ar rcs`, without T.",
        )
    try:
        raw = list(_raw_members(data))
        symbols = _symbols(raw)
    except (struct.error, ValueError, IndexError) as error:
        raise BuildError(f"{path} is damaged: {error}.", "Build or fetch it again.") from error
    return [
        Member(member.name, member.data, tuple(symbols.get(member.position, ())))
        for member in raw
        if not _is_index(member.name) and member.name != "//"
    ]


def _raw_members(data: bytes) -> Iterator[_Raw]:
    names = b""
    position = len(_MAGIC)
    while position < len(data):
        field, _, _, _, _, length, end = _HEADER.unpack_from(data, position)
        # Digits only: a negative size would lead back, again and again.
        size = int(length) if length.strip().isdigit() else -1
        start = position + _HEADER.size
        if end != _END or size < 0 or start + size > len(data):
            raise ValueError(f"its member at byte {position} is truncated")
        contents = data[start : start + size]
        name = field.decode().rstrip()
        if name == "//":
            names = contents
        elif name.startswith(_BSD_LONG_NAME):
            split = int(name[len(_BSD_LONG_NAME) :])
            if not 0 <= split <= len(contents):
                raise ValueError(f"the name of its member at byte {position} has {split} bytes")
            name = contents[:split].rstrip(b"\0").decode()
            contents = contents[split:]
        elif name[:1] == "/" and name[1:].isdigit():
            begin = int(name[1:])
            name = names[begin : names.index(b"/\n", begin)].decode()
        elif len(name) > 1 and not _is_index(name):
            name = name.removesuffix("/")
        yield _Raw(position, name, contents)
        position = start + size + size % 2


def _is_index(name: str) -> bool:
    return name in ("/", "/SYM64/", *_BSD_INDEXES, *_BSD_INDEXES_64)


def _symbols(members: Sequence[_Raw]) -> dict[int, list[str]]:
    """Position of a member's header to the symbols that the index says it defines."""
    symbols: dict[int, list[str]] = {}
    for member in members:
        if member.name in ("/", "/SYM64/"):
            pairs = _gnu_index(member.data, ">Q" if member.name == "/SYM64/" else ">I")
        elif _is_index(member.name):
            pairs = _bsd_index(member.data, "<Q" if member.name in _BSD_INDEXES_64 else "<I")
        else:
            continue
        for position, symbol in pairs:
            symbols.setdefault(position, []).append(symbol)
    return symbols


def _gnu_index(data: bytes, number: str) -> list[tuple[int, str]]:
    width = struct.calcsize(number)
    (count,) = struct.unpack_from(number, data)
    if width * (count + 1) > len(data):
        raise ValueError(f"its index names {count} symbols and has {len(data)} bytes")
    positions = [struct.unpack_from(number, data, width * (i + 1))[0] for i in range(count)]
    names = data[width * (count + 1) :].split(b"\0")
    return [(position, name.decode()) for position, name in zip(positions, names, strict=False)]


def _bsd_index(data: bytes, number: str) -> list[tuple[int, str]]:
    width = struct.calcsize(number)
    (size,) = struct.unpack_from(number, data)
    if 2 * width + size > len(data):
        raise ValueError(f"its index has {size} bytes of symbols in {len(data)}")
    strings = data[2 * width + size :]
    pairs = []
    for at in range(width, width + size, 2 * width):
        name, position = struct.unpack_from(number[0] + number[1] * 2, data, at)
        pairs.append((position, strings[name : strings.index(b"\0", name)].decode()))
    return pairs


def write(path: Path, members: Sequence[Member], bsd: bool = False) -> None:
    """Writes a static library: the same bytes for the same members.

    Args:
        path: the file to write.
        members: in their order.
        bsd: whether it is for Apple's linkers.
    """
    names = b""
    bodies = []
    for member in members:
        if bsd:
            bodies.append(_bsd_body(member))
        else:
            # All names lie in the table of long ones.
            bodies.append((f"/{len(names)}", member.data))
            names += member.name.encode() + b"/\n"
    symbols = [(n, s.encode()) for n, m in enumerate(members) for s in m.symbols]
    head = len(_MAGIC) + _HEADER.size + _padded(_index_size(symbols, bsd))
    head += _HEADER.size + _padded(len(names)) if names else 0
    positions = []
    for _, body in bodies:
        positions.append(head)
        head += _HEADER.size + _padded(len(body))
    name, index = ("__.SYMDEF", _write_bsd) if bsd else ("/", _write_gnu)
    # Some linkers refuse an index in an empty library.
    parts = [(name, index([(positions[n], s) for n, s in symbols]))] if members else []
    parts += [("//", names)] if names else []
    library = _MAGIC + b"".join(_part(name, data) for name, data in [*parts, *bodies])
    write_atomically(path, lambda out: out.write(library))


def _bsd_body(member: Member) -> tuple[str, bytes]:
    name = member.name.encode()
    name += bytes(-len(name) % 8)
    return f"{_BSD_LONG_NAME}{len(name)}", name + member.data


def _index_size(symbols: Sequence[tuple[int, bytes]], bsd: bool) -> int:
    strings = sum(len(name) + 1 for _, name in symbols)
    return 8 + 8 * len(symbols) + strings if bsd else 4 + 4 * len(symbols) + strings


def _write_gnu(symbols: Sequence[tuple[int, bytes]]) -> bytes:
    positions = struct.pack(f">{len(symbols) + 1}I", len(symbols), *(p for p, _ in symbols))
    return positions + b"".join(name + b"\0" for _, name in symbols)


def _write_bsd(symbols: Sequence[tuple[int, bytes]]) -> bytes:
    table, strings = b"", b""
    for position, name in symbols:
        table += struct.pack("<II", len(strings), position)
        strings += name + b"\0"
    return struct.pack("<I", len(table)) + table + struct.pack("<I", len(strings)) + strings


def _padded(size: int) -> int:
    return size + size % 2


def _part(name: str, data: bytes) -> bytes:
    fields = (name, "0", "0", "0", "644", str(len(data)))
    header = _HEADER.pack(*(field.encode() for field in fields), _END)
    # struct pads with zeros, the format with spaces.
    return header.replace(b"\0", b" ") + data + b"\n" * (len(data) % 2)
