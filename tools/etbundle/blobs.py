"""The blobs of a file: what an update fetches of it if only some of its weights changed.

A blob of a .pte or .ptd file begins where a segment or a constant does, and contains the padding
after it. So new programs on unchanged weights, and weights of which some changed, have blobs in
common, wherever they lie. Other files are one blob.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from etlink import ptd, pte
from etlink.container import Piece, sha256_of

# Bytes. Naming a smaller blob costs more than it saves, so neighbors that are smaller are one blob.
SMALLEST = 1024


@dataclass(frozen=True)
class Blob:
    """Bytes of a file.

    Attributes:
      offset: in the file.
      size: bytes.
      sha256: of them.
    """

    offset: int
    size: int
    sha256: str


def blobs_of(path: Path) -> list[Blob]:
    """The blobs of a file, which are all of its bytes.

    Raises:
      BuildError: a .pte or .ptd file is damaged.
    """
    size = path.stat().st_size
    ends = sorted({*_starts(path), size} - {0}) if size > SMALLEST else [size]
    starts = [0]
    for start, end in itertools.pairwise(ends):
        if max(start - starts[-1], end - start) >= SMALLEST:
            starts.append(start)
    return [
        Blob(start, end - start, sha256_of(Piece(end - start, path=path, offset=start)))
        for start, end in zip(starts, [*starts[1:], size], strict=True)
    ]


def _starts(path: Path) -> Iterator[int]:
    if path.suffix == ".ptd":
        yield from (piece.offset for piece, _ in ptd.read(path).values())
    elif path.suffix == ".pte":
        file = pte.read(path)
        yield from (offset for offset, _ in file.segments)
        constants = file.program.constantSegment
        if constants is not None and constants.offsets is not None and file.segments:
            base = file.segments[constants.segmentIndex][0]
            yield from (base + int(offset) for offset in constants.offsets)


def in_manifest(blobs: list[Blob]) -> list[str]:
    """Blobs of one file as manifests have them: "<size> <sha256>" each, in their order."""
    return [f"{blob.size} {blob.sha256}" for blob in blobs]


def of_manifest(lines: list[str]) -> list[Blob]:
    """The blobs of a file, as its manifest has them.

    Raises:
      ValueError: a line is malformed.
    """
    blobs: list[Blob] = []
    offset = 0
    for line in lines:
        size, sha256 = line.split(" ")
        blobs.append(Blob(offset, int(size), sha256))
        offset += int(size)
    return blobs
