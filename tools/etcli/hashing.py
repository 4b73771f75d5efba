"""Hashes of what may be large, with a bar that advances."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from etlink.container import Piece, chunks


def sha256_of(piece: Piece, advance: Callable[[int], None]) -> str:
    """The sha256 of a piece's bytes, hex.

    Args:
      piece: the bytes.
      advance: is told how many bytes were read.

    Raises:
      BuildError: its file is missing or too short.
    """
    digest = hashlib.sha256()
    for data in chunks(piece):
        digest.update(data)
        advance(len(data))
    return digest.hexdigest()
