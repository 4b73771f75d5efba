"""EtShare: makes a data file that several programs load, with its manifest.

Contract: `etlink.share --label L --data OUT.ptd --manifest OUT.json
(--lowered DIR… [--exclude NAME]… [--beside MANIFEST.json]… |
--file IN.ptd [--file_manifest IN.json])`

The file holds the union of the data of some lowered programs, each key once, or is a copy of a file
that was built before. A runtime finds weights in it by key alone and would compute with whatever is
there, so two programs that have different bytes under one key are an error here, not a choice. The
same key may not lie in two files that are loaded together either: `beside` leaves it out.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError, listed

from etlink import manifest, ptd
from etlink.container import CHUNK, REBUILD, Piece, write_atomically
from etlink.data_file import check_file, describe, write_data_file
from etlink.lowered import Lowered, data_of
from etlink.manifest import File, Manifest
from etlink.named_data import NamedData, unmatched


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the file."""
    parser = ToolParser(prog="etlink.share", description=__doc__)
    parser.add_argument("--label", required=True, help="the target, for messages")
    parser.add_argument("--data", type=Path, required=True, help=".ptd to write")
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    parser.add_argument("--lowered", type=Path, action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[], metavar="NAME")
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--file", type=Path, help=".ptd that was built before")
    parser.add_argument("--file_manifest", type=Path, help="its manifest")
    args = parser.parse_args(arguments)
    if args.file:
        file = adopt(args.file, args.file_manifest, args.data, args.label)
    else:
        sources = [Lowered(folder) for folder in args.lowered]
        beside = [only_data_file(path)[1] for path in args.beside]
        file = share(sources, args.data, args.label, args.exclude, beside)
    manifest.write(args.manifest, Manifest(label=args.label, files={args.data.name: file}))


def only_data_file(path: Path) -> tuple[str, File]:
    """Reads the manifest of one data file; returns its name and what the manifest says of it.

    Raises:
      BuildError: the manifest is malformed, or of something else.
    """
    files = manifest.read(path).files
    if len(files) != 1:
        raise BuildError(
            f"{path} is not the manifest of a data file: got {len(files)} files, expected one.",
            REBUILD,
        )
    return next(iter(files.items()))


def share(
    sources: Sequence[Lowered],
    path: Path,
    label: str,
    exclude: Sequence[str] = (),
    beside: Sequence[File] = (),
) -> File:
    """Writes the union of the programs' data.

    Args:
      sources: lowered programs.
      path: the .ptd to write.
      label: the target, for messages.
      exclude: qualified names or patterns that are left out.
      beside: data files that it is loaded beside: what they hold is left out.

    Raises:
      BuildError: a key has different bytes in two of the sources, or beside; nothing is left; a
        pattern matches nothing; the output cannot be written.
    """
    data = _union(sources, label, exclude, beside)
    # A source whose recipe asks for more (whole pages) gets it here, too.
    alignment = math.lcm(ptd.SEGMENT_ALIGNMENT, *(s.index.segment_alignment for s in sources))
    return write_data_file(path, label, data, alignment)


def _union(
    sources: Sequence[Lowered], label: str, exclude: Sequence[str], beside: Sequence[File]
) -> list[tuple[NamedData, Piece]]:
    """Collects what the file holds, with its bytes; see `share`."""
    elsewhere = {d.key: dataclasses.replace(d, target=f.label) for f in beside for d in f.keys}
    union: dict[str, tuple[NamedData, Piece]] = {}
    names: set[str] = set()
    for lowered in sources:
        for unlabeled in data_of(lowered.index):
            item = dataclasses.replace(unlabeled, target=lowered.index.label)
            names.update(item.names if item.size else ())
            if not item.size or item.matches(exclude):
                continue
            if item.key in elsewhere:
                _check_same(label, item, elsewhere[item.key])
                continue
            if item.key in union:
                item = _merge(label, union[item.key][0], item)
            union[item.key] = (item, lowered.piece(item.sha256, item.size))
    for pattern in unmatched(exclude, names):
        raise BuildError(
            f'{label}: exclude = "{pattern}" matches no weight.',
            f"The weights are {listed(sorted(names))}.",
        )
    if not union:
        raise BuildError(
            f"{label}: there is nothing to share: its lowered programs have no data that can lie "
            "outside of them.",
            "Backends that put weights into their payload (TOSA, VGF, Ethos-U) cannot share them.",
        )
    return list(union.values())


def _merge(label: str, first: NamedData, second: NamedData) -> NamedData:
    """One entry for the same data in two sources."""
    _check_same(label, first, second)
    names = tuple(sorted({*first.names, *second.names}))
    alignment = max(first.alignment, second.alignment)
    return dataclasses.replace(first, names=names, alignment=alignment)


def _check_same(label: str, first: NamedData, second: NamedData) -> None:
    if not first.same_bytes(second):
        raise BuildError(
            f'{label}: "{first.key}" has different bytes in {first.target} and {second.target}: '
            f"sha256 {first.sha256} ({first.describe()}) and {second.sha256} "
            f"({second.describe()}).",
            f'A file can hold only one of them. Leave it out: exclude = ["{first.key}"].',
        )


def adopt(source: Path, manifest_path: Path | None, path: Path, label: str) -> File:
    """Copies a file that was built before, and checks all of its bytes.

    Args:
      source: the .ptd.
      manifest_path: its manifest; None: made from the file, which then must have keys that say what
        their bytes are, or names that are trusted.
      path: the .ptd to write.
      label: the target, for messages.

    Raises:
      BuildError: the file is damaged, or not that of its manifest.
    """
    if manifest_path is None:
        file = describe(source, label)
    else:
        files = manifest.read(manifest_path).files
        only = next(iter(files.values())) if len(files) == 1 else None
        known = next((f for p, f in files.items() if Path(p).name == source.name), only)
        if known is None:
            raise BuildError(
                f"{manifest_path} is not the manifest of {source.name}: got {', '.join(files)}.",
                "Give the one that was built with it.",
            )
        check_file(source, known)
        file = known
    with open(source, "rb") as data:
        write_atomically(path, lambda out: shutil.copyfileobj(data, out, CHUNK))
    return dataclasses.replace(file, label=label, size=path.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
