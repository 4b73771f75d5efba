"""Zip archives of unknown origin: what is looked at before anything is read out of them."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import BinaryIO

# What deflate makes of zeros; more is claimed by archives that aren't what they say.
_MOST_RATIO = 1032
_MOST_COMPRESSED = 1 << 30
_ENCRYPTED = 0x1
_PIECE = 1 << 20
# Characters of a message.
_MOST_MESSAGE = 300

# What zipfile raises on archives whose tables are damaged.
UNREADABLE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)


class ArchiveError(ValueError):
    """An archive can't be what a program wrote; the message is half a sentence.

    Args:
      what: names of members in it may be of any length and of any characters; the message is one
        line, of which the middle is left out where it is long.
    """

    def __init__(self, what: str) -> None:
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in what)
        most = _MOST_MESSAGE // 2
        super().__init__(line if len(line) <= 2 * most else f"{line[:most]}…{line[-most:]}")


def members(stream: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """The members of a zip archive by name.

    Args:
      stream: the archive, which is left open.

    Returns:
      Each member; sizes are those that the archive states.

    Raises:
      ArchiveError: it is not a complete zip archive; a member is there twice, is encrypted, or is
        packed in a way that isn't known here; it states more bytes than it can have.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            listed = archive.infolist()
    except UNREADABLE as error:
        raise ArchiveError(f"it is not a complete zip archive: {error}") from error
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in listed:
        if info.filename in entries:
            raise ArchiveError(f'it has "{info.filename}" twice')
        if info.header_offset < 0:
            raise ArchiveError(f'"{info.filename}" begins before it')
        if info.flag_bits & _ENCRYPTED:
            raise ArchiveError(f'"{info.filename}" is encrypted')
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArchiveError(f'"{info.filename}" is packed in the way {info.compress_type}')
        entries[info.filename] = info
    _check_sizes(stream, entries)
    return entries


def read_member(stream: BinaryIO, member: zipfile.ZipInfo | str) -> bytes:
    """The bytes of a member, as one of `members`.

    Raises:
      ArchiveError: it is damaged.
    """
    name = member if isinstance(member, str) else member.filename
    try:
        with zipfile.ZipFile(stream) as archive:
            return archive.read(member)
    except (*UNREADABLE, RuntimeError, zlib.error) as error:
        raise ArchiveError(f'"{name}" is damaged: {error}') from error


def check_member(stream: BinaryIO, name: str) -> None:
    """Checks the bytes of a member against its checksum, a piece at a time.

    Raises:
      ArchiveError: it is damaged.
    """
    try:
        with zipfile.ZipFile(stream) as archive, archive.open(name) as source:
            while source.read(_PIECE):
                pass
    except (*UNREADABLE, RuntimeError, zlib.error) as error:
        raise ArchiveError(f'"{name}" is damaged: {error}') from error


def stored(entries: dict[str, zipfile.ZipInfo], name: str) -> zipfile.ZipInfo:
    """A member that must be there as it is, not compressed.

    Raises:
      ArchiveError: it is missing, or compressed.
    """
    if name not in entries:
        raise ArchiveError(f'it has no "{name}"')
    if entries[name].compress_type != zipfile.ZIP_STORED:
        raise ArchiveError(f'"{name}" is compressed')
    return entries[name]


def _check_sizes(stream: BinaryIO, entries: dict[str, zipfile.ZipInfo]) -> None:
    stream.seek(0, 2)
    size = stream.tell()
    plain = unpacked = 0
    for info in entries.values():
        if info.compress_type == zipfile.ZIP_STORED:
            plain += info.file_size
        else:
            plain += info.compress_size
            unpacked += info.file_size
            if info.file_size > _MOST_RATIO * info.compress_size + 64:
                raise ArchiveError(
                    f'"{info.filename}" states {info.file_size} bytes, which {info.compress_size} '
                    "compressed ones cannot hold"
                )
    # Members that lie over each other are how small archives become endless.
    if plain > size:
        raise ArchiveError(f"its members have {plain} bytes and it has {size}")
    if unpacked > _MOST_COMPRESSED:
        raise ArchiveError(f"its compressed members have {unpacked} bytes when they are unpacked")
