"""Counts the bytes that payloads of several methods have in common, whatever their format."""

from __future__ import annotations

from collections.abc import Iterable

# Shorter runs are tables that look alike, not weights.
_BLOCK = 64
# Formats align constants at multiples of this.
_ALIGNMENT = 4


def count(methods: Iterable[Iterable[bytes]]) -> int:
    """The bytes of payloads that payloads of earlier methods contain, too.

    Runs of 64 equal bytes and more count, wherever they lie; blocks of one repeated byte do not.
    Runs count in whole blocks of 64, so that the number is a lower bound. A compressed weight
    counts if both methods compress it to the same bytes.

    Args:
      methods: the payloads of each method.

    Example:
      >>> weights = bytes(range(256))
      >>> count([[b"prefill." + weights], [b"decode: " + weights]])
      192
    """
    known: set[bytes] = set()
    equal = 0
    for payloads in methods:
        payloads = list(payloads)
        equal += sum(_found(payload, known) for payload in payloads)
        for payload in payloads:
            known.update(
                payload[i : i + _BLOCK] for i in range(0, len(payload) - _BLOCK + 1, _BLOCK)
            )
    return equal


def _found(payload: bytes, known: set[bytes]) -> int:
    equal = at = 0
    while at + _BLOCK <= len(payload):
        block = payload[at : at + _BLOCK]
        if block in known and block.count(block[0]) < _BLOCK:
            equal += _BLOCK
            at += _BLOCK
        else:
            at += _ALIGNMENT
    return equal
