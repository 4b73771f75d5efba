"""What differs between two JSON documents or texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etcli.reproduce.first_byte import first_byte


def of_json(one: Path, other: Path) -> Iterator[str]:
    """Values that differ, with their places: `$.files[2].sha256: …`."""
    first, second = json.loads(one.read_bytes()), json.loads(other.read_bytes())
    if first == second:
        yield "the values are equal; white space or the order of keys differs"
    yield from _of_values("$", first, second)


def of_text(one: Path, other: Path) -> Iterator[str]:
    """The first line that differs."""
    first, second = one.read_bytes().splitlines(), other.read_bytes().splitlines()
    for number, (a, b) in enumerate(zip(first, second, strict=False), 1):
        if a != b:
            yield f"line {number}: {_shown(a)} and {_shown(b)}"
            return
    if len(first) != len(second):
        yield f"{len(first)} lines and {len(second)} lines"
        return
    yield from first_byte(one.read_bytes(), other.read_bytes())


def _of_values(place: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if key not in one or key not in other:
                yield f"{place}.{key}: only the {'first' if key in one else 'second'} has it"
            else:
                yield from _of_values(f"{place}.{key}", one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{place}: {len(one)} values and {len(other)} values"
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            yield from _of_values(f"{place}[{number}]", a, b)
    elif one != other or type(one) is not type(other):
        yield f"{place}: {json.dumps(one)} and {json.dumps(other)}"


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= 100 else text[:100] + "…")
