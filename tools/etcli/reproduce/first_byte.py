"""Where two byte strings part."""

from __future__ import annotations

from collections.abc import Iterator


def first_byte(one: bytes, other: bytes) -> Iterator[str]:
    """Sizes where they differ, and the place of the first byte that isn't the same.

    Args:
      one: bytes of the first build.
      other: of the second.
    """
    if len(one) != len(other):
        yield f"{len(one)} bytes and {len(other)} bytes"
    place = parting(one, other)
    if place is not None:
        there = one[place : place + 8].hex(" "), other[place : place + 8].hex(" ")
        yield f"from byte {place} on: {there[0]} and {there[1]}"


def parting(one: bytes, other: bytes) -> int | None:
    """Index of the first byte that differs; None: one is the other, or its beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return None
    # The longest equal beginning, by halves: comparing slices is fast.
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
