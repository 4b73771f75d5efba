"""GGUF files of unknown origin: a look at the header before the gguf library reads it.

The library counts on what a header says: of an array that is said to have 2^60 elements it makes as
many, long after the file has ended.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from etbuild.errors import BuildError

_AGAIN = "Fetch the file again, or correct what the target's data attribute names."
_VERSIONS = (2, 3)
# GGUF's value types by number: bytes of those of a fixed size; strings; arrays.
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
# The library takes some hundred bytes for each element of an array; a vocabulary has 10^6 at most.
_MOST_ELEMENTS = 1 << 22
_MOST_DIMENSIONS = 8


class _DamagedError(Exception):
    """The header makes no sense; the message is half a sentence."""


def check_gguf(path: Path) -> None:
    """Checks the header of a GGUF file: its magic, counts, lengths and types.

    Raises:
      BuildError: the file is missing, of another kind, truncated, or its header is damaged.

    Example:

        check_gguf(path)
        reader = gguf.GGUFReader(path)
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            magic = stream.read(4)
            if magic != b"GGUF":
                raise BuildError(
                    f"{path}: expected a GGUF file, which starts with b'GGUF'; found {magic!r} "
                    f"({size} bytes in all).",
                    _AGAIN,
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                _Header(data).check()
    except OSError as error:
        raise BuildError(f"{path}: cannot be read: {error.strerror}.", _AGAIN) from None
    except _DamagedError as error:
        raise BuildError(
            f"{path}: expected a complete GGUF file; found {size} bytes whose header is unreadable "
            f"({error}).",
            _AGAIN,
        ) from None


class _Header:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 4
        self._elements = 0

    def check(self) -> None:
        version = self._number("<I")
        if version not in _VERSIONS:
            raise _DamagedError(f"its version is {version}, expected 2 or 3")
        tensors, values = self._number("<Q"), self._number("<Q")
        # A value has a key's length, a type and something of a byte or more.
        self._claim(values, 13, "values")
        for _ in range(values):
            self._skip(self._number("<Q"), "a key")
            self._value(self._number("<I"))
        self._claim(tensors, 24, "tensors")
        for _ in range(tensors):
            self._skip(self._number("<Q"), "a tensor's name")
            dimensions = self._number("<I")
            if dimensions > _MOST_DIMENSIONS:
                raise _DamagedError(
                    f"a tensor has {dimensions} dimensions, expected at most {_MOST_DIMENSIONS}"
                )
            self._skip(8 * dimensions + 12, "a tensor's description")

    def _value(self, kind: int, in_array: bool = False) -> None:
        if kind == _STRING:
            self._skip(self._number("<Q"), "a string")
        elif kind == _ARRAY and not in_array:
            inner, count = self._number("<I"), self._number("<Q")
            self._claim(count, _WIDTHS.get(inner, 8), "elements of an array")
            self._elements += count
            if self._elements > _MOST_ELEMENTS:
                raise _DamagedError(f"its arrays have more than {_MOST_ELEMENTS} elements")
            if inner in _WIDTHS:
                self._skip(count * _WIDTHS[inner], "an array")
            else:
                for _ in range(count):
                    self._value(inner, in_array=True)
        elif kind in _WIDTHS:
            self._skip(_WIDTHS[kind], "a value")
        else:
            raise _DamagedError(f"a value is of type {kind}{' in an array' if in_array else ''}")

    def _number(self, form: str) -> int:
        start = self._at
        self._skip(struct.calcsize(form), "a number")
        return int(struct.unpack_from(form, self._data, start)[0])

    def _skip(self, size: int, what: str) -> None:
        self._claim(size, 1, f"bytes of {what}")
        self._at += size

    def _claim(self, count: int, least: int, what: str) -> None:
        """Fails where the file has no room for something that it says it has."""
        left = len(self._data) - self._at
        if count * least > left:
            raise _DamagedError(
                f"it names {count} {what} at byte {self._at}, and {left} bytes follow"
            )
