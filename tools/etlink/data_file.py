"""Data files (.ptd) and what a manifest says of them: which keys they hold, with which bytes.

Linking compares a program with manifests, never with the data files themselves, so it reads no
weights. That is sound as long as a manifest describes its file: EtShare and EtLink write both
together, and a file that was built elsewhere is checked against its manifest byte by byte
(`check_file`) before anything links with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlink import ptd
from etlink.container import REBUILD, Piece, digest_of, sha256_of, write_atomically
from etlink.manifest import File
from etlink.named_data import Layout, NamedData, content_key
from etlink.tables import SCALAR_TYPES

_HASH = re.compile(r"^(scale_|constant_)?[0-9a-f]{64}$")


def write_data_file(
    path: Path,
    label: str,
    data: Sequence[tuple[NamedData, Piece]],
    alignment: int = ptd.SEGMENT_ALIGNMENT,
) -> File:
    """Writes a .ptd file; returns what a manifest says of it.

    Args:
      path: the .ptd.
      label: the target that makes it.
      data: what to write, in any order, with its bytes.
      alignment: of segments, bytes.

    Raises:
      BuildError: the file cannot be written.
    """
    write_atomically(path, lambda out: ptd.write(out, data, alignment))
    unlabeled = (dataclasses.replace(item, target="") for item, _ in data)
    entries = sorted(unlabeled, key=lambda item: item.key)
    return File(size=path.stat().st_size, label=label, keys=tuple(entries))


def describe(path: Path, label: str) -> File:
    """Describes a .ptd file that has no manifest: of another build, or made by hand.

    Raises:
      BuildError: the file is damaged, or a key that is a sha256 has other bytes.
    """
    entries = []
    for key, (piece, layout) in sorted(ptd.read(path).items()):
        entry = describe_key(key, piece, layout)
        if entry.by_name and _HASH.search(key):
            raise BuildError(
                f'{path} is damaged: the key "{key}" says what its bytes are, but their sha256 is '
                f"{entry.sha256}.",
                REBUILD,
            )
        entries.append(entry)
    return File(size=path.stat().st_size, label=label, keys=tuple(entries))


def describe_key(key: str, piece: Piece, layout: Layout | None) -> NamedData:
    """Describes one key of a .ptd file without a manifest; reads all of its bytes."""
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
    )


def check_file(path: Path, file: File) -> None:
    """Checks all bytes of a .ptd file against its manifest.

    Raises:
      BuildError: the file is damaged, or belongs to another manifest.
    """
    pieces = ptd.read(path)
    other = f"{path} is not the file of its manifest ({file.label})"
    extra = sorted(pieces.keys() - file.by_key().keys())
    if extra:
        raise BuildError(f'{other}: the key "{extra[0]}" is not in the manifest.', REBUILD)
    damaged = f"{path} is damaged, or not the file of its manifest ({file.label})"
    for entry in file.keys:
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
