"""EtShare: one data file out of lowered programs, or a file that was built before, with its index.

Contract: `etlink.share --label L --data OUT.ptd --index OUT.json
(--lowered DIR… [--exclude NAME]… [--beside INDEX.json]… | --file IN.ptd [--file_index IN.json])`
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.errors import BuildError

from etlink import ptd, shared
from etlink.container import write_atomically
from etlink.lowered import Lowered
from etlink.shared import DataIndex


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the file; returns the exit code."""
    parser = ToolParser(prog="etlink.share", description=__doc__)
    parser.add_argument("--label", required=True, help="the target, for messages")
    parser.add_argument("--data", type=Path, required=True, help=".ptd to write")
    parser.add_argument("--index", type=Path, required=True, help="JSON to write")
    parser.add_argument("--lowered", type=Path, action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[], metavar="NAME")
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--file", type=Path, help=".ptd that was built before")
    parser.add_argument("--file_index", type=Path, help="its index")
    given = parser.parse_args(arguments)
    try:
        if given.file:
            index = adopt(given.file, given.file_index, given.data, given.label)
        else:
            sources = [Lowered(folder) for folder in given.lowered]
            beside = [shared.read_index(path) for path in given.beside]
            index = share(sources, given.data, given.label, given.exclude, beside)
        shared.write_index(given.index, index)
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


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
      BuildError: see `shared.union`; an unwritable output.
    """
    found = shared.union(sources, label, exclude, beside)
    # A source whose recipe asks for more (whole pages) finds it here, too.
    alignment = math.lcm(ptd.SEGMENT_ALIGNMENT, *(s.index.segment_alignment for s in sources))
    write_atomically(path, lambda out: ptd.write(out, [entry for _, entry in found], alignment))
    entries = tuple(entry for entry, _ in found)
    return DataIndex(label, path.name, path.stat().st_size, entries)


def adopt(source: Path, index_path: Path | None, path: Path, label: str) -> DataIndex:
    """Copies a file that was built before, checked byte by byte.

    Args:
      source: the .ptd.
      index_path: its index; None: made from the file, which then must have keys that say what
        their bytes are, or names that are taken at their word.
      path: the .ptd to write.
      label: the target, for messages.

    Raises:
      BuildError: the file is damaged, or not that of its index.
    """
    if index_path is None:
        index = shared.index_of_file(source, label)
    else:
        index = shared.read_index(index_path)
        shared.check_file(source, index)
    with open(source, "rb") as data:
        write_atomically(path, lambda out: shutil.copyfileobj(data, out, 4 << 20))
    return dataclasses.replace(
        index, label=label, file=path.name, size=path.stat().st_size, interface=""
    )


if __name__ == "__main__":
    sys.exit(main())
