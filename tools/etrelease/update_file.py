"""Update files: what a newer version of a folder has and an older one lacks.

    "ETUPDATE"     8 bytes
    header size    8 bytes, little-endian
    header         JSON
    manifest       of the newer version
    signature      of that, in minisign's format; may be empty
    blobs          one after the other

The header names both versions by the sha256 of their manifests. It lists the blobs, and for each
file that the older version lacks its parts: blobs, and bytes of the older version's files.
tools/runner/update reads these files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from etbuild.errors import BuildError
from etlink.container import Piece, chunks, sha256_of, write_atomically
from etlink.json_file import fields_of

FORMAT = 1
MAGIC = b"ETUPDATE"

_HEAD = struct.Struct("<8sQ")
_HINT = "Build the et_update again."


@dataclass(frozen=True)
class Update:
    """An update file, read.

    Attributes:
        path: the file.
        header: its JSON.
        manifest: of the newer version.
        signature: of that; may be empty.
        blobs: the bytes after these.
    """

    path: Path
    header: Mapping[str, Any]
    manifest: bytes
    signature: bytes
    blobs: Piece


def is_update(path: Path) -> bool:
    """Whether a file begins as updates do."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read(path: Path) -> Update:
    """Reads an update, without its blobs.

    Raises:
        BuildError: it is no update, or is damaged.
    """
    if not is_update(path):
        raise BuildError(f"{path} is not an update, expected a file that et_update wrote.", _HINT)
    size = path.stat().st_size
    with fields_of(path, _HINT), open(path, "rb") as file:
        _, header_size = _HEAD.unpack(_take(file, _HEAD.size, size))
        header = json.loads(_take(file, header_size, size))
        manifest = _take(file, int(header["current"]["size"]), size)
        signature = _take(file, int(header["signature"]), size)
        start = file.tell()
        got, expected = sha256_of(Piece.of(manifest)), str(header["current"]["sha256"])
    if got != expected:
        raise BuildError(
            f"{path} is damaged: its manifest: sha256: got {got}, expected {expected}.", _HINT
        )
    return Update(path, header, manifest, signature, Piece(size - start, path=path, offset=start))


def _take(file: BinaryIO, count: int, size: int) -> bytes:
    if count > size - file.tell():
        raise ValueError(f"it ends at byte {size}, expected {file.tell() + count} at least")
    return file.read(count)


def blob_problems(update: Update) -> list[str]:
    """A sentence for each blob that is not what the header says."""
    problems = []
    offset = update.blobs.offset
    end = offset + update.blobs.size
    with fields_of(update.path, _HINT):
        for number, blob in enumerate(update.header["blobs"]):
            size, expected = int(blob["size"]), str(blob["sha256"])
            if size > end - offset:
                problems.append(f"blob {number} ends after the file.")
                return problems
            got = sha256_of(Piece(size, path=update.path, offset=offset))
            if got != expected:
                problems.append(f"blob {number}: sha256: got {got}, expected {expected}.")
            offset += size
    if offset != end:
        problems.append(f"got {end} bytes, expected {offset}.")
    return problems


def sign(update: Update, signature: bytes, output: Path) -> None:
    """Writes an update with another signature.

    Raises:
        BuildError: the output cannot be written.
    """
    write(output, replace(update, signature=signature), [update.blobs])


def write(output: Path, update: Update, blobs: Iterable[Piece]) -> None:
    """Writes an update; `update.blobs` and `update.path` are ignored.

    Raises:
        BuildError: the output cannot be written.
    """
    header = dict(update.header) | {"signature": len(update.signature)}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()

    def put(out: BinaryIO) -> None:
        out.write(_HEAD.pack(MAGIC, len(text)))
        for part in (text, update.manifest, update.signature):
            out.write(part)
        for piece in blobs:
            for chunk in chunks(piece):
                out.write(chunk)

    write_atomically(output, put)
