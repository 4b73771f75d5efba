"""The outer layout that .pte and .ptd files share: flatbuffer, header inside of it, segments.

Source: upstream's `schema/extended_header.h` (programs) and
`extension/flat_tensor/serialize/flat_tensor_header.h` (data files).
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from etbuild.errors import BuildError

CHUNK = 4 << 20

REBUILD = "Rebuild the target that makes it; if it is checked in, fetch it again."


@dataclass(frozen=True)
class Piece:
    """Bytes of a file on disk, or bytes in memory.

    Attributes:
      size: bytes.
      path: the file that holds them, from `offset`; None: they are `data`.
      offset: bytes.
      data: the bytes, for small pieces.
    """

    size: int
    path: Path | None = None
    offset: int = 0
    data: bytes = b""

    @staticmethod
    def of(data: bytes) -> Piece:
        """A piece in memory."""
        return Piece(len(data), data=data)


@dataclass(frozen=True)
class Segment:
    """One segment of a file: pieces one after the other.

    Attributes:
      pieces: what it consists of; padding inside of it is a piece, too.
      alignment: bytes, beyond the alignment of all segments.
    """

    pieces: tuple[Piece, ...]
    alignment: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(piece.size for piece in self.pieces)


def aligned(size: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is at least `size`; both in bytes."""
    return -(-size // alignment) * alignment


def place(segments: Sequence[Segment], alignment: int) -> list[tuple[int, int]]:
    """Offsets and sizes of segments, in bytes from the segment base."""
    placed: list[tuple[int, int]] = []
    end = 0
    for segment in segments:
        start = aligned(end, math.lcm(alignment, segment.alignment))
        end = start + segment.size
        placed.append((start, segment.size))
    return placed


def insert_header(flatbuffer: bytes, header: bytes) -> bytes:
    """Puts a header between the file identifier and the tables, and moves the root offset on."""
    (root,) = struct.unpack_from("<I", flatbuffer)
    return b"".join(
        [struct.pack("<I", root + len(header)), flatbuffer[4:8], header, flatbuffer[8:]]
    )


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file so that it is there whole or not at all.

    Raises:
      BuildError: the output can't be written (no such folder, no permission, disk full).
    """
    part = path.with_name(f".{path.name}.part")
    try:
        try:
            with open(part, "wb") as out:
                write(out)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(
            f"Can't write {path}: {error.strerror or error}.",
            "Check that the folder exists, is writable and has space left.",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""

    def write(out: BinaryIO) -> None:
        out.write(text.encode())

    write_atomically(path, write)


def write_segments(
    out: BinaryIO, segments: Sequence[Segment], placed: Iterable[tuple[int, int]]
) -> None:
    """Streams segments, with zeros between them."""
    written = 0
    for segment, (start, _) in zip(segments, placed, strict=True):
        out.write(bytes(start - written))
        for piece in segment.pieces:
            copy_piece(piece, out)
        written = start + segment.size


def copy_piece(piece: Piece, out: BinaryIO) -> None:
    """Copies a piece in bounded memory.

    Raises:
      BuildError: its file is missing, or shorter than it should be.
    """
    if piece.path is None:
        out.write(piece.data)
        return
    left = piece.size
    if not piece.path.exists():
        raise BuildError(f"{piece.path} is missing.", REBUILD)
    with open(piece.path, "rb") as source:
        left -= _copy_in_kernel(source, out, piece)
        source.seek(piece.offset + piece.size - left)
        while left:
            data = source.read(min(CHUNK, left))
            if not data:
                raise BuildError(
                    f"{piece.path} is truncated: {left} bytes are missing of the {piece.size} "
                    f"at offset {piece.offset}.",
                    REBUILD,
                )
            out.write(data)
            left -= len(data)


def _copy_in_kernel(source: BinaryIO, out: BinaryIO, piece: Piece) -> int:
    """Copies between files without reading them; returns the bytes copied, maybe 0."""
    if piece.size < CHUNK or not hasattr(os, "copy_file_range"):
        return 0
    done = 0
    try:
        out.flush()
        while done < piece.size:
            count = os.copy_file_range(
                source.fileno(), out.fileno(), piece.size - done, piece.offset + done
            )
            if not count:
                break
            done += count
    except (OSError, AttributeError):
        pass  # Other file systems, or no file: the reader's loop does the rest.
    # Both share the descriptor's position; a buffered writer must learn of it.
    if done:
        out.seek(0, os.SEEK_CUR)
    return done


def sha256_of_piece(piece: Piece) -> str:
    """The sha256 of a piece's bytes, hex; see `digest_of_piece`."""
    return digest_of_piece(piece)[0]


def digest_of_piece(piece: Piece) -> tuple[str, int]:
    """The sha256 (hex) and the CRC-32 of a piece's bytes.

    Raises:
      BuildError: its file is missing or too short.
    """
    if piece.path is None:
        return hashlib.sha256(piece.data).hexdigest(), zlib.crc32(piece.data)
    digest, crc32 = hashlib.sha256(), 0
    left = piece.size
    with open(piece.path, "rb") as source:
        source.seek(piece.offset)
        while left:
            data = source.read(min(CHUNK, left))
            if not data:
                raise BuildError(f"{piece.path} is truncated: {left} bytes are missing.", REBUILD)
            digest.update(data)
            crc32 = zlib.crc32(data, crc32)
            left -= len(data)
    return digest.hexdigest(), crc32
