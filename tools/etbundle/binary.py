"""Checks by its headers that a file is a library, and not truncated."""

from __future__ import annotations

import struct

from etbuild.errors import BuildError

_ELF_MAGIC = b"\x7fELF"
_ELF64_LITTLE_ENDIAN = (2, 1)
_MACHO_64 = b"\xcf\xfa\xed\xfe"
_MACHO_FAT = b"\xca\xfe\xba\xbe"
_ARCHIVE = b"!<arch>\n"
_SEGMENT_64 = 0x19
_ARCHIVE_HEADER = 60


class _Damaged(Exception):
    """A header refers to something beyond the file's end."""


def check_binary(data: bytes, name: str) -> str:
    """Fails unless a file is a whole library, object file or archive of them.

    Args:
      data: the file's bytes.
      name: for messages.

    Returns:
      "ELF", "Mach-O" or "archive".

    Raises:
      BuildError: it is another kind of file, or truncated.
    """
    checks = {
        _ELF_MAGIC: ("ELF", _check_elf),
        _MACHO_64: ("Mach-O", _check_macho),
        _MACHO_FAT: ("Mach-O", _check_fat),
        _ARCHIVE: ("archive", _check_archive),
    }
    for magic, (kind, check) in checks.items():
        if not data.startswith(magic):
            continue
        try:
            check(data)
        except (struct.error, _Damaged) as error:
            raise BuildError(
                f"{name}: this {kind} file is damaged: {error or 'its header is truncated'}.",
                "Build or download it again.",
            ) from None
        return kind
    got = f"{data[:8]!r} as the first bytes" if data else "an empty file"
    raise BuildError(
        f"{name}: not a library: got {got}, expected a 64-bit ELF or Mach-O file, or an archive "
        "(.a).",
        "Give the library itself, not a link script, a text stub (.tbd) or a folder around it.",
    )


def _within(data: bytes, end: int, part: str) -> None:
    if end > len(data):
        raise _Damaged(f"{part} ends at byte {end}, the file at {len(data)}")


def _check_elf(data: bytes) -> None:
    if (data[4:5] + data[5:6]) != bytes(_ELF64_LITTLE_ENDIAN):
        raise _Damaged("its header is not that of a 64-bit little-endian machine")
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    _within(data, sections + section_size * section_count, "its table of sections")
    _within(data, segments + segment_size * segment_count, "its table of segments")
    for number in range(segment_count):
        offset, _, _, size = struct.unpack_from("<QQQQ", data, segments + number * segment_size + 8)
        _within(data, offset + size, f"segment {number}")


def _check_macho(data: bytes) -> None:
    (commands,) = struct.unpack_from("<I", data, 16)
    position = 32
    for number in range(commands):
        command, size = struct.unpack_from("<II", data, position)
        if size < 8:
            raise _Damaged(f"load command {number} has the size {size}")
        if command == _SEGMENT_64:
            offset, length = struct.unpack_from("<QQ", data, position + 40)
            _within(data, offset + length, f"the segment of load command {number}")
        position += size
    _within(data, position, "the list of load commands")


def _check_fat(data: bytes) -> None:
    (count,) = struct.unpack_from(">I", data, 4)
    for number in range(count):
        offset, size = struct.unpack_from(">II", data, 8 + 20 * number + 8)
        _within(data, offset + size, f"architecture {number}")
        _check_macho(data[offset : offset + size])


def _check_archive(data: bytes) -> None:
    position = len(_ARCHIVE)
    while position < len(data):
        header = data[position : position + _ARCHIVE_HEADER]
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise _Damaged(f"no header of a member found at byte {position}")
        position += _ARCHIVE_HEADER + int(size)
        _within(data, position, "a member")
        position += position % 2
