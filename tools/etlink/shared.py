"""Data files that several programs load: the .ptd and its index."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import ptd
from etlink.container import REBUILD, digest_of, sha256_of, write_text
from etlink.data import Datum, content_key, data_of
from etlink.json_file import FormError, check_base_name, check_hash, decode, read_object
from etlink.lowered import Lowered
from etlink.ptd import Layout
from etlink.tables import SCALAR_TYPES

FORMAT = 1

_HASH = re.compile(r"^(scale_|constant_)?[0-9a-f]{64}$")


@dataclass(frozen=True)
class Entry:
    """One key of a data file.

    Attributes:
      key: what programs look it up by.
      sha256: of its bytes, hex.
      size: bytes.
      crc32: of its bytes: what a runner can check on every start.
      alignment: bytes, at least.
      dtype: "float32", "qcint4", "scale", …; empty: unknown.
      shape: elements per dimension.
      names: qualified names of the weights that use it, sorted.
      by_name: whether the key is a name, which says nothing of the bytes.
      layout: of a tensor that the runtime loads.
      target: the target whose lowering it comes from.
    """

    key: str
    sha256: str
    size: int
    crc32: int
    alignment: int = 1
    dtype: str = ""
    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    by_name: bool = False
    layout: Layout | None = None
    target: str = ""

    def datum(self) -> Datum:
        """The same for messages."""
        return Datum(
            self.key,
            self.sha256,
            self.size,
            self.crc32,
            self.alignment,
            self.layout,
            self.names,
            self.dtype,
            self.shape,
            self.by_name,
        )


@dataclass(frozen=True)
class DataIndex:
    """What is in a data file: its index, `<name>.index.json`.

    Attributes:
      label: the target that made it.
      file: base name of the .ptd file.
      size: bytes of it.
      entries: by key, sorted.
      interface: of a program's own data: what a program and its other data files must be for these
        to fit; empty for data that is shared.
    """

    label: str
    file: str
    size: int
    entries: tuple[Entry, ...]
    interface: str = ""

    def by_key(self) -> dict[str, Entry]:
        """Key to entry."""
        return {e.key: e for e in self.entries}


def entries_of(data: Iterable[Datum], target: str) -> list[Entry]:
    """Entries of an index from data of a lowered program."""
    return [
        Entry(
            d.key,
            d.blob,
            d.size,
            d.crc32,
            d.alignment,
            d.dtype,
            d.shape,
            d.names,
            d.by_name,
            d.layout,
            target,
        )
        for d in data
    ]


def write_index(path: Path, index: DataIndex) -> None:
    """Writes an index, the same bytes for the same contents."""
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(index)}, indent=1, sort_keys=True)
    write_text(path, text + "\n")


def read_index(path: Path) -> DataIndex:
    """Reads an index.

    Raises:
      BuildError: it can't be read, or is of another format.
    """
    raw = read_object(path, "is no index of a data file", REBUILD)
    if raw.get("format") != FORMAT:
        raise BuildError(
            f"{path}: got format {raw.get('format')}, wanted {FORMAT}.",
            "Build it again with the rules_executorch that links with it.",
        )
    try:
        index = decode(DataIndex, {k: v for k, v in raw.items() if k != "format"})
        _check(index)
    except FormError as error:
        raise BuildError(f"{path} is no index of a data file: {error}.", REBUILD) from error
    return index


def _check(index: DataIndex) -> None:
    """Fails for an index whose parts don't fit together."""
    check_base_name(index.file, "it.file")
    keys = [e.key for e in index.entries]
    for number, entry in enumerate(index.entries):
        check_hash(entry.sha256, f"it.entries[{number}].sha256")
        if number and keys[number - 1] >= entry.key:
            raise FormError(f'its keys are not sorted: "{keys[number - 1]}", "{entry.key}"')


def union(
    sources: Sequence[Lowered],
    label: str,
    exclude: Sequence[str] = (),
    beside: Sequence[DataIndex] = (),
) -> list[tuple[Entry, ptd.Entry]]:
    """What a data file made from lowered programs holds, sorted by key.

    Args:
      sources: the lowered programs.
      label: the target that is made, for messages.
      exclude: qualified names, or patterns of them, that are left out.
      beside: data files that it is loaded beside: what they hold is left out.

    Raises:
      BuildError: a key has different bytes in two of the sources, or beside; nothing is left; a
        pattern matches nothing.
    """
    elsewhere = {e.key: (e, index) for index in beside for e in index.entries}
    found: dict[str, tuple[Entry, ptd.Entry]] = {}
    names: set[str] = set()
    for lowered in sources:
        data = [d for d in data_of(lowered.index) if d.size]
        names.update(n for d in data for n in d.names)
        for datum, entry in zip(data, entries_of(data, lowered.index.label), strict=True):
            if is_named(datum, exclude):
                continue
            if datum.key in elsewhere:
                other, index = elsewhere[datum.key]
                _check_same(label, entry, other, lowered.index.label, index.label)
                continue
            if datum.key in found:
                before = found[datum.key][0]
                _check_same(label, before, entry, before.target, lowered.index.label)
                merged = sorted({*before.names, *entry.names})
                alignment = max(before.alignment, entry.alignment)
                entry = dataclasses.replace(before, names=tuple(merged), alignment=alignment)
            found[datum.key] = (entry, dataclasses.replace(datum, **_merged(entry)).entry(lowered))
    for pattern in unmatched(exclude, names):
        raise BuildError(
            f'{label}: exclude = "{pattern}" matches no weight.',
            f"The weights are {some(sorted(names))}.",
        )
    if not found:
        raise BuildError(
            f"{label}: there is nothing to share: its lowered programs have no data that can lie "
            "outside of them.",
            "Backends that put weights into their payload (TOSA, VGF, Ethos-U) can't share them.",
        )
    return [found[key] for key in sorted(found)]


def _merged(entry: Entry) -> dict[str, Any]:
    return {"alignment": entry.alignment, "names": entry.names}


def _check_same(label: str, one: Entry, two: Entry, first: str, second: str) -> None:
    if (one.sha256, one.layout) == (two.sha256, two.layout):
        return
    raise BuildError(
        f'{label}: "{one.key}" has different bytes in {first} and {second}: sha256 {one.sha256} '
        f"({one.datum().described()}) and {two.sha256} ({two.datum().described()}).",
        f'One file can hold one of them. Leave it out of the file: exclude = ["{one.key}"].',
    )


def is_named(datum: Datum, patterns: Sequence[str]) -> bool:
    """Whether names or patterns ("layers.*.mask") name a datum for every weight that uses it."""
    return bool(datum.names) and all(
        any(_matches(name, pattern) for pattern in patterns) for name in datum.names
    )


def unmatched(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    """The names or patterns that match none of some qualified names."""
    known = set(names)
    return [p for p in patterns if not any(_matches(name, p) for name in known)]


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern names a weight; a name may hold what patterns read as more ("x[0]")."""
    return name == pattern or fnmatchcase(name, pattern)


def some(names: Sequence[str], most: int = 5) -> str:
    """A few of some names, for messages."""
    listed = ", ".join(f'"{n}"' for n in names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed or "none"


def index_of_file(path: Path, label: str) -> DataIndex:
    """The index of a .ptd file that has none: of another build, or made by hand.

    Raises:
      BuildError: the file is damaged, or a key that is a sha256 has other bytes.
    """
    entries = []
    for key, (piece, layout) in sorted(ptd.read(path).items()):
        found = digest_of(piece)
        digest, crc32 = found.sha256, found.crc32
        by_name = digest not in key and content_key(digest, layout) != key
        if by_name and _HASH.search(key):
            raise BuildError(
                f'{path} is damaged: the key "{key}" says what its bytes are, and their sha256 is '
                f"{digest}.",
                REBUILD,
            )
        dtype = SCALAR_TYPES[layout.scalar_type][0] if layout else ""
        shape = layout.sizes if layout else ()
        names = (key,) if by_name else ()
        entries.append(
            Entry(key, digest, piece.size, crc32, 1, dtype, shape, names, by_name, layout, label)
        )
    return DataIndex(label, path.name, path.stat().st_size, tuple(entries))


def check_file(path: Path, index: DataIndex) -> None:
    """Checks all bytes of a .ptd file against its index.

    Raises:
      BuildError: the file is damaged, or another one.
    """
    found = ptd.read(path)
    extra = sorted(found.keys() - {e.key for e in index.entries})
    if extra:
        raise BuildError(
            f'{path} is not the file of its index ({index.label}): the key "{extra[0]}" is not in '
            "the index.",
            REBUILD,
        )
    for entry in index.entries:
        if entry.key not in found:
            raise BuildError(
                f'{path} is not the file of its index ({index.label}): the key "{entry.key}" is '
                "missing.",
                REBUILD,
            )
        piece, layout = found[entry.key]
        digest = sha256_of(piece)
        if digest != entry.sha256:
            raise BuildError(
                f"{path} is damaged, or not the file of its index ({index.label}): the sha256 of "
                f'"{entry.key}" ({entry.datum().title()}) is {digest}, wanted {entry.sha256}.',
                REBUILD,
            )
        if layout != entry.layout:
            got, wanted = (x.described() if x else "none" for x in (layout, entry.layout))
            raise BuildError(
                f"{path} is damaged, or not the file of its index ({index.label}): the layout of "
                f'"{entry.key}" is {got}, wanted {wanted}.',
                REBUILD,
            )
