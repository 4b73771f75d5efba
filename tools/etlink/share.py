"""EtShare: makes a data file that several programs load, with its index.

Contract: `etlink.share --label L --data OUT.ptd --index OUT.json
(--lowered DIR… [--exclude NAME]… [--beside INDEX.json]… | --file IN.ptd [--file_index IN.json])`

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

from etlink import ptd
from etlink.container import CHUNK, Piece, write_atomically
from etlink.data_index import (
    DataIndex,
    check_file,
    index_of_file,
    read_index,
    write_data_file,
    write_index,
)
from etlink.lowered import Lowered, data_of
from etlink.named_data import NamedData, unmatched


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the file."""
    parser = ToolParser(prog="etlink.share", description=__doc__)
    parser.add_argument("--label", required=True, help="the target, for messages")
    parser.add_argument("--data", type=Path, required=True, help=".ptd to write")
    parser.add_argument("--index", type=Path, required=True, help="JSON to write")
    parser.add_argument("--lowered", type=Path, action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[], metavar="NAME")
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--file", type=Path, help=".ptd that was built before")
    parser.add_argument("--file_index", type=Path, help="its index")
    args = parser.parse_args(arguments)
    if args.file:
        index = adopt(args.file, args.file_index, args.data, args.label)
    else:
        sources = [Lowered(folder) for folder in args.lowered]
        beside = [read_index(path) for path in args.beside]
        index = share(sources, args.data, args.label, args.exclude, beside)
    write_index(args.index, index)


def share(
    sources: Sequence[Lowered],
    path: Path,
    label: str,
    exclude: Sequence[str] = (),
    beside: Sequence[DataIndex] = (),
) -> DataIndex:
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
    sources: Sequence[Lowered], label: str, exclude: Sequence[str], beside: Sequence[DataIndex]
) -> list[tuple[NamedData, Piece]]:
    """Returns the file's contents, with their bytes; see `share`."""
    elsewhere = {e.key: dataclasses.replace(e, target=i.label) for i in beside for e in i.entries}
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


def adopt(source: Path, index_path: Path | None, path: Path, label: str) -> DataIndex:
    """Copies a file that was built before, and checks all of its bytes.

    Args:
      source: the .ptd.
      index_path: its index; None: made from the file, which then must have keys that say what
        their bytes are, or names that are trusted.
      path: the .ptd to write.
      label: the target, for messages.

    Raises:
      BuildError: the file is damaged, or not that of its index.
    """
    if index_path is None:
        index = index_of_file(source, label)
    else:
        index = read_index(index_path)
        check_file(source, index)
    with open(source, "rb") as data:
        write_atomically(path, lambda out: shutil.copyfileobj(data, out, CHUNK))
    return dataclasses.replace(
        index, label=label, file=path.name, size=path.stat().st_size, interface=""
    )


if __name__ == "__main__":
    sys.exit(main())
