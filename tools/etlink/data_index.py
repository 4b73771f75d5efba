"""The index of a .ptd file, `<name>.index.json`: its keys, and the digests of their bytes.

Linking compares a program with indexes, never with the data files themselves, so it reads no
weights. That is sound as long as an index describes its file: EtShare and EtLink write both
together, and a file that was built elsewhere is checked against its index byte by byte
(`check_file`) before anything links with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError

from etlink import ptd
from etlink.container import REBUILD, Piece, digest_of, sha256_of, write_atomically
from etlink.json_file import FormError, check_base_name, check_hash, read_file, write_json
from etlink.named_data import Layout, NamedData, content_key
from etlink.tables import SCALAR_TYPES

FORMAT = 1

_HASH = re.compile(r"^(scale_|constant_)?[0-9a-f]{64}$")


@dataclass(frozen=True)
class DataIndex:
    """The contents of a data file.

    Attributes:
      label: the target that made it.
      file: base name of the .ptd file.
      size: bytes of it.
      entries: sorted by key.
      interface: of a program's own data: what a program and its other data files must be for these
        to fit; empty for data that are shared.
    """

    label: str
    file: str
    size: int
    entries: tuple[NamedData, ...]
    interface: str = ""

    def by_key(self) -> dict[str, NamedData]:
        """Key to entry."""
        return {entry.key: entry for entry in self.entries}


def write_data_file(
    path: Path,
    label: str,
    data: Sequence[tuple[NamedData, Piece]],
    alignment: int = ptd.SEGMENT_ALIGNMENT,
) -> DataIndex:
    """Writes a .ptd file; returns its index, which is not written.

    Args:
      path: the .ptd.
      label: the target that makes it.
      data: what to write, in any order, with its bytes.
      alignment: of segments, bytes.

    Raises:
      BuildError: the file cannot be written.
    """
    write_atomically(path, lambda out: ptd.write(out, data, alignment))
    entries = sorted((item for item, _ in data), key=lambda item: item.key)
    return DataIndex(label, path.name, path.stat().st_size, tuple(entries))


def write_index(path: Path, index: DataIndex) -> None:
    """Writes an index."""
    write_json(path, {"format": FORMAT, **dataclasses.asdict(index)})


def read_index(path: Path) -> DataIndex:
    """Reads an index.

    Raises:
      BuildError: the file cannot be read, is not an index, or has another format.
    """
    problem = "is not an index of a data file"
    return read_file(DataIndex, path, problem, REBUILD, format=FORMAT, check=_check)


def _check(index: DataIndex) -> None:
    """Fails for an index whose parts do not fit together."""
    check_base_name(index.file, "it.file")
    keys = [entry.key for entry in index.entries]
    for number, entry in enumerate(index.entries):
        check_hash(entry.sha256, f"it.entries[{number}].sha256")
        if number and keys[number - 1] >= entry.key:
            raise FormError(f'its keys are not sorted: "{keys[number - 1]}", "{entry.key}"')


def index_of_file(path: Path, label: str) -> DataIndex:
    """The index of a .ptd file that has none: of another build, or made by hand.

    Raises:
      BuildError: the file is damaged, or a key that is a sha256 has other bytes.
    """
    entries = []
    for key, (piece, layout) in sorted(ptd.read(path).items()):
        entry = describe_key(key, piece, layout, target=label)
        if entry.by_name and _HASH.search(key):
            raise BuildError(
                f'{path} is damaged: the key "{key}" says what its bytes are, but their sha256 is '
                f"{entry.sha256}.",
                REBUILD,
            )
        entries.append(entry)
    return DataIndex(label, path.name, path.stat().st_size, tuple(entries))


def describe_key(key: str, piece: Piece, layout: Layout | None, target: str = "") -> NamedData:
    """Describes a key by what the .ptd file alone says; all of its bytes are read."""
    digest = digest_of(piece)
    by_name = digest.sha256 not in key and content_key(digest.sha256, layout) != key
    return NamedData(
        key=key,
        sha256=digest.sha256,
        size=piece.size,
        crc32=digest.crc32,
        dtype=SCALAR_TYPES[layout.scalar_type][0] if layout else "",
        shape=layout.sizes if layout else (),
        names=(key,) if by_name else (),
        by_name=by_name,
        layout=layout,
        target=target,
    )


def check_file(path: Path, index: DataIndex) -> None:
    """Checks all bytes of a .ptd file against its index.

    Raises:
      BuildError: the file is damaged, or belongs to another index.
    """
    pieces = ptd.read(path)
    other = f"{path} is not the file of its index ({index.label})"
    extra = sorted(pieces.keys() - {entry.key for entry in index.entries})
    if extra:
        raise BuildError(f'{other}: the key "{extra[0]}" is not in the index.', REBUILD)
    damaged = f"{path} is damaged, or not the file of its index ({index.label})"
    for entry in index.entries:
        if entry.key not in pieces:
            raise BuildError(f'{other}: the key "{entry.key}" is missing.', REBUILD)
        piece, layout = pieces[entry.key]
        digest = sha256_of(piece)
        if digest != entry.sha256:
            raise BuildError(
                f'{damaged}: the sha256 of "{entry.key}" ({entry.title()}) is {digest}, expected '
                f"{entry.sha256}.",
                REBUILD,
            )
        if layout != entry.layout:
            got, expected = (x.describe() if x else "none" for x in (layout, entry.layout))
            raise BuildError(
                f'{damaged}: the layout of "{entry.key}" is {got}, expected {expected}.', REBUILD
            )
