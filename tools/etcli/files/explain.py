"""Says what differs between two files, by what they are."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from etbuild.errors import BuildError

from etcli.files import archives, documents, programs

# More differences than these tell nothing new.
MOST = 20


def explain(first: Path, second: Path) -> list[str]:
    """Lists what differs, a line each, at most MOST and a line that says so.

    Args:
      first: a file or folder.
      second: its counterpart.
    """
    lines: list[str] = []
    for line in _differences(first, second):
        if len(lines) == MOST:
            lines.append("… and more")
            break
        lines.append(line)
    return lines or ["the names and contents are equal; permissions or kinds of files differ"]


def _differences(first: Path, second: Path) -> Iterator[str]:
    if first.is_dir() != second.is_dir():
        yield "one is a folder, the other a file"
        return
    if first.is_dir():
        yield from _of_members(archives.of_folder(first), archives.of_folder(second))
        return
    kind = kind_of(first)
    try:
        if kind != kind_of(second):
            yield f"they begin as files of two kinds: {kind} and {kind_of(second)}"
        else:
            yield from _READERS[kind](first, second)
            return
    except (BuildError, OSError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        yield f"it cannot be read as the {kind} that it begins as ({error})"
    yield from documents.of_bytes(first.read_bytes(), second.read_bytes())


def kind_of(path: Path) -> str:
    """Tells a file's kind by its first bytes, or its name."""
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


def _of_members(first: archives.Members, second: archives.Members) -> Iterator[str]:
    """Lists what differs between the members of archives, and in them."""
    if list(first) != list(second) and sorted(first) == sorted(second):
        a, b = next((a, b) for a, b in zip(first, second, strict=True) if a != b)
        yield f"the members are the same in another order: {a} where the second has {b}"
    for name in sorted({*first, *second}):
        if name not in first or name not in second:
            yield f"{name}: only the {'first' if name in first else 'second'} has it"
            continue
        a, b = first[name], second[name]
        for key in sorted({*a.header, *b.header}):
            if a.header.get(key) != b.header.get(key):
                yield f"{name}: {key} is {a.header.get(key)} and {b.header.get(key)}"
        if a.read() != b.read():
            yield from (f"{name}: {line}" for line in _inside(name, a.read(), b.read()))


def _inside(name: str, first: bytes, second: bytes) -> Iterator[str]:
    """Members may be programs or archives themselves."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, data in enumerate((first, second)):
            # Not under its name, which may be any text. What a file is may depend on the suffix.
            path = Path(folder, str(number), f"member{'.tar' if name.endswith('.tar') else ''}")
            path.parent.mkdir()
            path.write_bytes(data)
            paths.append(path)
        yield from _differences(*paths)


def _of_bytes(first: Path, second: Path) -> Iterator[str]:
    yield from documents.of_bytes(first.read_bytes(), second.read_bytes())


_READERS: dict[str, Callable[[Path, Path], Iterator[str]]] = {
    "JSON document": documents.of_json,
    "bundled program": _of_bytes,
    "data file": programs.of_data_files,
    "file": _of_bytes,
    "program": programs.of_programs,
    "tar file": lambda a, b: _of_members(archives.of_tar(a), archives.of_tar(b)),
    "text": documents.of_text,
    "zip file": lambda a, b: _of_members(archives.of_zip(a), archives.of_zip(b)),
}
