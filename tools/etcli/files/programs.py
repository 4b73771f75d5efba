"""Differences between two .pte or .ptd files: data by their names, fields of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etlink import ptd, pte
from etlink.container import Piece, chunks, sha256_of

from etcli.files.contents import data_of
from etcli.files.documents import of_bytes


def of_programs(first: Path, second: Path) -> Iterator[str]:
    """Data first, then the fields of the tables."""
    files = pte.read(first), pte.read(second)
    yield from _of_data(*({d.title: d.piece for d in data_of(f)} for f in files))
    yield from of_fields("program", *(file.program for file in files))


def of_data_files(first: Path, second: Path) -> Iterator[str]:
    """Data by key."""
    a, b = files = ptd.read(first), ptd.read(second)
    yield from _of_data(*({f"data {k!r}": piece for k, (piece, _) in f.items()} for f in files))
    for key in sorted({*a} & {*b}):
        if a[key][1] != b[key][1]:
            yield f"data {key!r}: its layout is {a[key][1]} and {b[key][1]}"
    if list(a) != list(b) and sorted(a) == sorted(b):
        yield "the keys are the same in another order"


def _of_data(first: Mapping[str, Piece], second: Mapping[str, Piece]) -> Iterator[str]:
    for title in sorted({*first, *second}):
        if title not in first or title not in second:
            yield f"{title}: only the {'first' if title in first else 'second'} has it"
        elif sha256_of(first[title]) != sha256_of(second[title]):
            lines = of_bytes(*(b"".join(chunks(pieces[title])) for pieces in (first, second)))
            yield f"{title}: {'; '.join(lines)}"


def of_fields(path: str, first: Any, second: Any) -> Iterator[str]:
    """Fields of flatbuffers' objects that differ: `program.executionPlan[0].name: …`."""
    if isinstance(first, bytes) and isinstance(second, bytes) and max(len(first), len(second)) > 79:
        if first != second:
            yield f"{path}: {'; '.join(of_bytes(first, second))}"
    elif _is_list(first) and _is_list(second):
        first, second = list(first), list(second)
        if len(first) != len(second):
            yield f"{path}: {len(first)} and {len(second)} values"
        for number, (a, b) in enumerate(zip(first, second, strict=False)):
            yield from of_fields(f"{path}[{number}]", a, b)
    elif hasattr(first, "__dict__") and type(first) is type(second):
        for name in sorted({*vars(first), *vars(second)}):
            values = (getattr(value, name, None) for value in (first, second))
            yield from of_fields(f"{path}.{name}", *values)
    elif first != second:
        yield f"{path}: {first!r} and {second!r}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or getattr(value, "ndim", 0) > 0
