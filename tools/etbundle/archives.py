"""Archives whose bytes depend on names and contents alone, written in bounded memory.

Contract: `etbundle.archives --output OUT.tar.zst|OUT.zip|OUT.jar --directory DIR [--prefix FOLDER]
[--executable PATH]…`
"""

from __future__ import annotations

import shutil
import stat
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError

from etbundle.entries import Entry, in_order, tree

_BLOCK = 1 << 20
# Weights hardly compress, and the rest does at the fastest levels, too.
_ZSTD_LEVEL = 3
_DEFLATE_LEVEL = 9
# The earliest time that a zip can hold.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)

# Stored files start at pages, so that they can be mapped from inside the archive. Android maps
# libraries in pages of up to 16 KiB; loaders of programs round down to their own.
_ALIGNMENT = {".so": 16384, ".pte": 4096, ".ptd": 4096}
_STORED_ALIGNMENT = 4

# Android's extra field for it: two bytes of alignment, then zeros.
_ALIGNMENT_FIELD = 0xD935
_ALIGNMENT_FIELD_HEAD = 6
_LOCAL_HEADER = 30
# zipfile's own, for a file that may be too large for 32 bits.
_ZIP64_FIELD = 20
_ZIP64_SLACK = 1.05


def write_tar_zst(output: Path, entries: Iterable[Entry]) -> None:
    """Writes a tar in one zstd frame.

    Raises:
        BuildError: names that cannot be in one archive; the Python environment has no zstandard.
    """
    try:
        # Not at the top: zips need none.
        import zstandard
    except ImportError as error:
        raise BuildError(
            f"{output.name} cannot be written: zstandard not found in the exporter's packages.",
            "Add it to the deps or to light of your et_exporter.",
        ) from error
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, threads=0, write_checksum=True)
    with (
        output.open("wb") as file,
        compressor.stream_writer(file) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in in_order(entries):
            info = tarfile.TarInfo(entry.name)
            info.size = entry.size()
            info.mode = entry.mode
            with entry.open() as source:
                archive.addfile(info, source)


def stored_by_suffix(name: str) -> bool:
    """Tells whether a file is not compressed, because it is mapped from inside the archive."""
    return Path(name).suffix in _ALIGNMENT


def write_zip(
    output: Path, entries: Iterable[Entry], stored: Callable[[str], bool] = stored_by_suffix
) -> None:
    """Writes a zip: stored files aligned, others deflated, zip64 where it is needed.

    Args:
        output: the file to write.
        entries: what goes into it.
        stored: whether the file of a name is stored.

    Raises:
        BuildError: names that cannot be in one archive.
    """
    with zipfile.ZipFile(output, "w") as archive:
        for entry in in_order(entries):
            _add(archive, entry, stored(entry.name))


def _add(archive: zipfile.ZipFile, entry: Entry, stored: bool) -> None:
    info = zipfile.ZipInfo(entry.name, _ZIP_TIME)
    info.create_system = 3  # Unix: the permissions count.
    info.external_attr = (stat.S_IFREG | entry.mode) << 16
    info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    info._compresslevel = None if stored else _DEFLATE_LEVEL  # type: ignore[attr-defined]
    info.file_size = entry.size()
    zip64 = info.file_size * _ZIP64_SLACK > zipfile.ZIP64_LIMIT
    if stored:
        alignment = _ALIGNMENT.get(Path(entry.name).suffix, _STORED_ALIGNMENT)
        head = _LOCAL_HEADER + len(entry.name.encode()) + (_ZIP64_FIELD if zip64 else 0)
        info.extra = _padding(archive.fp.tell() + head, alignment)
    with entry.open() as source, archive.open(info, "w", force_zip64=zip64) as sink:
        shutil.copyfileobj(source, sink, _BLOCK)
    # Only the header beside the file needs it, not the directory at the end.
    info.extra = b""


def _padding(position: int, alignment: int) -> bytes:
    """An extra field after which a position is a multiple of an alignment."""
    length = -position % alignment
    if length == 0:
        return b""
    while length < _ALIGNMENT_FIELD_HEAD:
        length += alignment
    zeros = bytes(length - _ALIGNMENT_FIELD_HEAD)
    return struct.pack("<HHH", _ALIGNMENT_FIELD, length - 4, alignment) + zeros


WRITERS: dict[str, Callable[[Path, Iterable[Entry]], None]] = {
    ".tar.zst": write_tar_zst,
    ".zip": write_zip,
    ".jar": write_zip,
}


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Packs a directory."""
    parser = ToolParser(prog="etbundle.archives", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help=" or ".join(WRITERS))
    parser.add_argument("--directory", type=Path, required=True, help="what goes into it")
    parser.add_argument("--prefix", default="", help="folder in the archive")
    parser.add_argument("--executable", action="append", default=[], metavar="PATH")
    args = parser.parse_args(arguments)
    kinds = [kind for kind in WRITERS if args.output.name.endswith(kind)]
    if not kinds:
        raise BuildError(
            f"{args.output.name}: unknown kind of archive, expected {' or '.join(WRITERS)}."
        )
    WRITERS[kinds[0]](args.output, tree(args.directory, args.prefix, args.executable))


if __name__ == "__main__":
    sys.exit(main())
