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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from etbuild.errors import BuildError

CHUNK = 4 << 20
# Bytes: only damaged files ask for more, which would fill a disk with zeros.
MAX_ALIGNMENT = 1 << 24

# Bytes that hold the header of any of the formats, and what precedes it.
_MAX_HEAD = 64
# Offsets of flatbuffers have 32 bits, some with a sign.
_MAX_TABLES = 2**31 - 1

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

    @staticmethod
    def of_file(path: Path) -> Piece:
        """A whole file."""
        return Piece(path.stat().st_size, path=path)


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


def lay_out(segments: Sequence[Segment], alignment: int) -> list[tuple[int, int]]:
    """Offsets and sizes of segments, in bytes from the segment base.

    Raises:
      BuildError: a segment asks for an alignment that is too large.
    """
    offsets: list[tuple[int, int]] = []
    end = 0
    for segment in segments:
        start = aligned(end, common_alignment([segment], alignment))
        end = start + segment.size
        offsets.append((start, segment.size))
    return offsets


def common_alignment(segments: Sequence[Segment], alignment: int) -> int:
    """The least alignment, in bytes, that suits all segments and `alignment`.

    Raises:
      BuildError: it is larger than any program needs.
    """
    requested = [segment.alignment for segment in segments]
    common = math.lcm(alignment, *requested)
    if common > MAX_ALIGNMENT:
        raise BuildError(
            f"The alignment of a segment is too large: got {common} bytes, expected at most "
            f"{MAX_ALIGNMENT}; its data ask for {max(requested)}.",
            REBUILD,
        )
    return common


def read_head(path: Path, kind: str, identifier: bytes, header_size: int = 0) -> tuple[bytes, int]:
    """Reads the first bytes of a file, with the header if there is one.

    Args:
      path: the file.
      kind: "program" or "data file", for messages.
      identifier: of the flatbuffer; the last two bytes may differ, as they are its version.
      header_size: bytes of the header that the file must have.

    Returns:
      The first bytes, and the size of the file.

    Raises:
      BuildError: the file is missing, or of another kind.
    """
    if not path.is_file():
        raise BuildError(f"{path} is missing.", "Build it, or correct the path.")
    with open(path, "rb") as source:
        head = source.read(_MAX_HEAD)
    if len(head) < 8 + header_size or head[4:6] != identifier[:2]:
        raise BuildError(
            f"{path} is not an ExecuTorch {kind}: bytes 4 to 8 are {head[4:8]!r}, expected "
            f"{identifier!r}.",
            REBUILD,
        )
    return head, path.stat().st_size


def read_tables(path: Path, size: int, tables_end: int, data_end: int) -> bytes:
    """Reads a file from its begin to the end of its tables.

    Args:
      path: the file.
      size: its bytes.
      tables_end: where its header says that the tables end.
      data_end: where its header says that the file ends, at least.

    Raises:
      BuildError: the file is truncated, or its tables are larger than any can be.
    """
    if max(tables_end, data_end) > size:
        raise BuildError(
            f"{path} is truncated: got {size} bytes, but its header refers to byte "
            f"{max(tables_end, data_end)}.",
            REBUILD,
        )
    if tables_end > _MAX_TABLES:
        raise BuildError(
            f"{path} is damaged: its tables have {tables_end} bytes, expected at most "
            f"{_MAX_TABLES}.",
            REBUILD,
        )
    with open(path, "rb") as source:
        return source.read(tables_end)


def insert_header(flatbuffer: bytes, header: bytes) -> bytes:
    """Puts a header between the file identifier and the tables, and moves the root offset on."""
    (root,) = struct.unpack_from("<I", flatbuffer)
    return b"".join(
        [struct.pack("<I", root + len(header)), flatbuffer[4:8], header, flatbuffer[8:]]
    )


def write_atomically(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file so that it exists whole or not at all.

    Raises:
      BuildError: the output cannot be written (no such folder, no permission, disk full).
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
            f"{path} cannot be written: {error.strerror or error}.",
            "Check that the folder exists, is writable and has space left.",
        ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""

    def write(out: BinaryIO) -> None:
        out.write(text.encode())

    write_atomically(path, write)


def write_segments(
    out: BinaryIO, segments: Sequence[Segment], offsets: Iterable[tuple[int, int]]
) -> None:
    """Streams segments to where `lay_out` puts them, with zeros between them."""
    written = 0
    for segment, (start, _) in zip(segments, offsets, strict=True):
        out.write(bytes(start - written))
        for piece in segment.pieces:
            copy_piece(piece, out)
        written = start + segment.size


def copy_piece(piece: Piece, out: BinaryIO) -> None:
    """Copies a piece in bounded memory.

    Raises:
      BuildError: its file is missing, or shorter than it should be.
    """
    done = 0
    if piece.path is not None and piece.path.exists():
        with open(piece.path, "rb") as source:
            done = _copy_in_kernel(source, out, piece)
    for data in chunks(piece, done):
        out.write(data)


def chunks(piece: Piece, start: int = 0) -> Iterator[bytes]:
    """Reads a piece in bounded memory, from `start` bytes after its begin.

    Raises:
      BuildError: its file is missing, or shorter than it should be.
    """
    if piece.path is None:
        yield piece.data[start:]
        return
    if not piece.path.exists():
        raise BuildError(f"{piece.path} is missing.", REBUILD)
    left = piece.size - start
    with open(piece.path, "rb") as source:
        source.seek(piece.offset + start)
        while left:
            data = source.read(min(CHUNK, left))
            if not data:
                raise BuildError(
                    f"{piece.path} is truncated: {left} of the {piece.size} bytes at offset "
                    f"{piece.offset} are missing.",
                    REBUILD,
                )
            yield data
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


@dataclass(frozen=True)
class Digest:
    """The digest of some bytes.

    Attributes:
      sha256: hex.
      crc32: cheap enough for a check on every start.
    """

    sha256: str
    crc32: int


def digest_of(piece: Piece) -> Digest:
    """Both digests of a piece's bytes.

    Raises:
      BuildError: its file is missing or too short.
    """
    sha256, crc32 = hashlib.sha256(), 0
    for data in chunks(piece):
        sha256.update(data)
        crc32 = zlib.crc32(data, crc32)
    return Digest(sha256.hexdigest(), crc32)


def sha256_of(source: Piece | Path, advance: Callable[[int], None] = lambda count: None) -> str:
    """The sha256 of bytes, hex.

    Args:
      source: a piece or a file; or a folder: of the names, modes and hashes of its files.
      advance: is told how many bytes were read, e.g. by a progress bar.

    Raises:
      BuildError: a piece's file is missing or too short.
    """
    sha256 = hashlib.sha256()
    if isinstance(source, Path) and source.is_dir():
        for file in sorted(path for path in source.rglob("*") if not path.is_dir()):
            mode = "executable" if file.stat().st_mode & 0o100 else "plain"
            line = f"{file.relative_to(source).as_posix()}\0{mode}\0{sha256_of(file, advance)}\n"
            sha256.update(line.encode())
        return sha256.hexdigest()
    for data in chunks(Piece.of_file(source) if isinstance(source, Path) else source):
        sha256.update(data)
        advance(len(data))
    return sha256.hexdigest()
