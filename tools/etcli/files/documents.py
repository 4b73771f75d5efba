"""Differences between two JSON documents, two texts, or any two byte strings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def of_json(first: Path, second: Path) -> Iterator[str]:
    """Values that differ, with their paths: `$.files[2].sha256: …`."""
    values = json.loads(first.read_bytes()), json.loads(second.read_bytes())
    if values[0] == values[1]:
        yield "the values are equal; white space or the order of keys differs"
    yield from _of_values("$", *values)


def of_text(first: Path, second: Path) -> Iterator[str]:
    """The first line that differs."""
    lines = first.read_bytes().splitlines(), second.read_bytes().splitlines()
    for number, (a, b) in enumerate(zip(*lines, strict=False), 1):
        if a != b:
            yield f"line {number}: {_shown(a)} and {_shown(b)}"
            return
    if len(lines[0]) != len(lines[1]):
        yield f"{len(lines[0])} lines and {len(lines[1])} lines"
        return
    yield from of_bytes(first.read_bytes(), second.read_bytes())


def of_bytes(first: bytes, second: bytes) -> Iterator[str]:
    """Sizes where they differ, and the first byte that does."""
    if len(first) != len(second):
        yield f"{len(first)} bytes and {len(second)} bytes"
    index = _first_difference(first, second)
    if index is not None:
        parts = [data[index : index + 8].hex(" ") for data in (first, second)]
        yield f"from byte {index} on: {parts[0]} and {parts[1]}"


def _of_values(path: str, first: Any, second: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            if key not in first or key not in second:
                yield f"{path}.{key}: only the {'first' if key in first else 'second'} has it"
            else:
                yield from _of_values(f"{path}.{key}", first[key], second[key])
    elif isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            yield f"{path}: {len(first)} values and {len(second)} values"
        for number, (a, b) in enumerate(zip(first, second, strict=False)):
            yield from _of_values(f"{path}[{number}]", a, b)
    elif first != second or type(first) is not type(second):
        yield f"{path}: {json.dumps(first)} and {json.dumps(second)}"


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 100 else text[:100] + "…")


def _first_difference(first: bytes, second: bytes) -> int | None:
    """Index of the first byte that differs; None: one is the other, or its beginning."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return None
    # The longest equal beginning, by halves: comparing slices is fast.
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low
