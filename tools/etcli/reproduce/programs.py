"""What differs between two .pte or .ptd files: data by their names, fields of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etlink import ptd, pte
from etlink.container import Piece, chunks, sha256_of

from etcli.reproduce.contents import data_of
from etcli.reproduce.first_byte import first_byte


def of_programs(one: Path, other: Path) -> Iterator[str]:
    """Data first, then the fields of the tables."""
    first, second = pte.read(one), pte.read(other)
    yield from _of_data(*({d.title: d.piece for d in data_of(f)} for f in (first, second)))
    yield from of_fields("program", first.program, second.program)


def of_data_files(one: Path, other: Path) -> Iterator[str]:
    """Data by key."""
    first, second = ptd.read(one), ptd.read(other)
    yield from _of_data(
        {f"data {key!r}": piece for key, (piece, _) in first.items()},
        {f"data {key!r}": piece for key, (piece, _) in second.items()},
    )
    for key in sorted({*first} & {*second}):
        if first[key][1] != second[key][1]:
            yield f"data {key!r}: its layout is {first[key][1]} and {second[key][1]}"
    if list(first) != list(second) and sorted(first) == sorted(second):
        yield "the keys are the same in another order"


def _of_data(one: Mapping[str, Piece], other: Mapping[str, Piece]) -> Iterator[str]:
    for title in sorted({*one, *other}):
        if title not in one or title not in other:
            yield f"{title}: only the {'first' if title in one else 'second'} has it"
        elif sha256_of(one[title]) != sha256_of(other[title]):
            lines = first_byte(b"".join(chunks(one[title])), b"".join(chunks(other[title])))
            yield f"{title}: {'; '.join(lines)}"


def of_fields(place: str, one: Any, other: Any) -> Iterator[str]:
    """Fields of flatbuffers' objects that differ: `program.executionPlan[0].name: …`."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        if one != other:
            short = len(one) < 80 and len(other) < 80
            yield (
                f"{place}: {one!r} and {other!r}"
                if short
                else (f"{place}: {'; '.join(first_byte(one, other))}")
            )
    elif _is_list(one) and _is_list(other):
        first, second = list(one), list(other)
        if len(first) != len(second):
            yield f"{place}: {len(first)} and {len(second)} values"
        for number, (a, b) in enumerate(zip(first, second, strict=False)):
            yield from of_fields(f"{place}[{number}]", a, b)
    elif hasattr(one, "__dict__") and type(one) is type(other):
        for name in sorted({*vars(one), *vars(other)}):
            yield from of_fields(
                f"{place}.{name}", getattr(one, name, None), getattr(other, name, None)
            )
    elif one != other:
        yield f"{place}: {one!r} and {other!r}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or getattr(value, "ndim", 0) > 0
