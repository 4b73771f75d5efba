"""Amounts as people write and read them: bytes, percentages, operations, shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from etbuild.errors import BuildError

# The grammar is that of rules/private/amounts.bzl: tests/unit/etbuild/grammar.bzl tests both.
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:(%)| *(B|kB|MB|GB|KiB|MiB|GiB))?")
_UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


def amount(text: str, what: str) -> tuple[float, bool]:
    """Reads an amount of data.

    Args:
      text: "95%", "100000000", "100 MB", "95.4 MiB".
      what: target and attribute, for messages.

    Returns:
      The number, in bytes or percent, and whether it is percent.

    Raises:
      BuildError: it is neither a percentage nor a number of bytes.
    """
    match = _AMOUNT.fullmatch(text)
    number = float(match[1]) if match else 0.0
    if match is None or (match[2] == "%" and number > 100):
        raise BuildError(
            f'{what}: got "{text}", expected a percentage or a number of bytes.',
            'Write "95%", "100000000", "100 MB" or "95 MiB".',
        )
    return (number, True) if match[2] == "%" else (number * _UNITS[match[3] or "B"], False)


def bytes_of(text: str, what: str) -> float:
    """Reads an amount in bytes; see `amount`."""
    number, is_percent = amount(text, what)
    if is_percent:
        raise BuildError(f'{what}: got "{text}", expected a number of bytes, such as "100 MB".')
    return number


def human_bytes(count: int) -> str:
    """Bytes for people: "1.5 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return str(count)


def human_change(before: int, after: int) -> str:
    """A difference of bytes: "+1.5 kB", "−20 B", "0 B"."""
    difference = after - before
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return sign + human_bytes(abs(difference))


def human_flops(count: int) -> str:
    """Floating-point operations for people: "1.5 GFLOP"."""
    number = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000 or unit == "T":
            return f"{number:.1f} {unit}FLOP" if unit else f"{count} FLOP"
        number /= 1000
    return str(count)


def human_percent(share: float | None) -> str:
    """A percentage: "99.3%"; "–": of nothing."""
    return "–" if share is None else f"{share:.1f}%"


def human_tensor(dtype: str, sizes: Sequence[int]) -> str:
    """A tensor's type and shape: "float32 [1, 64]"; empty: unknown."""
    return f"{dtype} [{', '.join(str(n) for n in sizes)}]" if dtype else ""
