"""Says what differs between two files, by what they are."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from etbuild.errors import BuildError

from etcli.reproduce import archives, documents, programs
from etcli.reproduce.first_byte import first_byte

# More differences than these tell nothing new.
MOST = 20


def explain(one: Path, other: Path) -> list[str]:
    """What differs, a line each, at most MOST and a line that says so.

    Args:
      one: file or folder of the first build.
      other: its counterpart.
    """
    lines: list[str] = []
    for line in _differences(one, other):
        if len(lines) == MOST:
            lines.append("… and more")
            break
        lines.append(line)
    return lines or ["the names and contents are equal; permissions or kinds of files differ"]


def _differences(one: Path, other: Path) -> Iterator[str]:
    if one.is_dir() != other.is_dir():
        yield "one is a folder, the other a file"
        return
    if one.is_dir():
        yield from _of_members(archives.of_folder(one), archives.of_folder(other))
        return
    kind = kind_of(one)
    try:
        if kind != kind_of(other):
            yield f"they begin as files of two kinds: {kind} and {kind_of(other)}"
        else:
            yield from _READERS[kind](one, other)
            return
    except (BuildError, OSError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        yield f"it can't be read as the {kind} that it begins as ({error})"
    yield from first_byte(one.read_bytes(), other.read_bytes())


def kind_of(path: Path) -> str:
    """What a file is by its first bytes, or its name."""
    with open(path, "rb") as source:
        head = source.read(512)
    if head[4:8].startswith(b"ET"):
        return "program"
    if head[4:8].startswith(b"FT"):
        return "data file"
    if head[4:8].startswith(b"BP"):
        return "bundled program"
    if head[:4] == b"PK\3\4":
        return "zip file"
    if head[:2] == b"\x1f\x8b" or path.suffix == ".tar":
        return "tar file"
    if path.suffix == ".json":
        return "JSON document"
    return "text" if head and b"\0" not in head else "file"


def _of_members(one: archives.Members, other: archives.Members) -> Iterator[str]:
    """What differs between the members of archives, and in them."""
    if list(one) != list(other) and sorted(one) == sorted(other):
        yield "the members are the same in another order: " + _first_out_of_order(one, other)
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            yield f"{name}: only the {'first' if name in one else 'second'} has it"
            continue
        first, second = one[name], other[name]
        for key in sorted({*first.header, *second.header}):
            if first.header.get(key) != second.header.get(key):
                yield f"{name}: {key} is {first.header.get(key)} and {second.header.get(key)}"
        if first.read() != second.read():
            yield from (f"{name}: {line}" for line in _inside(name, first.read(), second.read()))


def _inside(name: str, one: bytes, other: bytes) -> Iterator[str]:
    """Members may be programs or archives themselves."""
    with tempfile.TemporaryDirectory() as folder:
        places = []
        for number, data in enumerate((one, other)):
            # Not under its name, which may be any text. What a file is may depend on the suffix.
            place = Path(folder, str(number), f"member{'.tar' if name.endswith('.tar') else ''}")
            place.parent.mkdir()
            place.write_bytes(data)
            places.append(place)
        yield from _differences(*places)


def _first_out_of_order(one: archives.Members, other: archives.Members) -> str:
    first, second = next((a, b) for a, b in zip(one, other, strict=True) if a != b)
    return f"{first} where the second has {second}"


_READERS: dict[str, Callable[[Path, Path], Iterator[str]]] = {
    "JSON document": documents.of_json,
    "bundled program": lambda a, b: first_byte(a.read_bytes(), b.read_bytes()),
    "data file": programs.of_data_files,
    "file": lambda a, b: first_byte(a.read_bytes(), b.read_bytes()),
    "program": programs.of_programs,
    "tar file": lambda a, b: _of_members(archives.of_tar(a), archives.of_tar(b)),
    "text": documents.of_text,
    "zip file": lambda a, b: _of_members(archives.of_zip(a), archives.of_zip(b)),
}
