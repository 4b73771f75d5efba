"""What differs between two .pte or .ptd files: data by their names, fields of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etlink import ptd, pte, tables
from etlink.container import Piece, chunks, sha256_of

from etreproduce.first_byte import first_byte


def of_programs(one: Path, other: Path) -> Iterator[str]:
    """Data first, then the fields of the tables."""
    first, second = pte.read(one), pte.read(other)
    yield from _of_data(_program_data(first), _program_data(second))
    yield from _of_fields("program", first.program, second.program)


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


def _program_data(file: pte.ProgramFile) -> dict[str, Piece]:
    """Segments of a program by what they hold."""
    found: dict[str, Piece] = {}
    program = file.program
    for named in program.namedData or []:
        found[f"data {tables.text(named.key)!r}"] = file.piece(named.segmentIndex)
    for plan in program.executionPlan:
        for number, delegate in enumerate(plan.delegates or []):
            place = delegate.processed
            if place is not None and place.location == 1:
                title = f"method {tables.text(plan.name)!r}, {tables.text(delegate.id)} {number}"
                found[f"{title}: its payload"] = file.piece(place.index)
    constants = program.constantSegment
    if constants is not None and constants.segmentIndex < len(file.segments):
        start, size = file.segments[constants.segmentIndex]
        offsets = [int(n) for n in constants.offsets] if constants.offsets is not None else []
        for number, begin in enumerate(offsets):
            end = min([n for n in offsets if n > begin], default=size)
            if number and begin < end <= size:
                found[_constant(program, number)] = Piece(end - begin, file.path, start + begin)
    return found


def _constant(program: Any, number: int) -> str:
    """A constant by the tensor that uses it first."""
    for plan, value, tensor in tables.tensors(program):
        if tables.is_constant(tensor) and tensor.dataBufferIdx == number:
            method = tables.text(program.executionPlan[plan].name)
            kind, _ = tables.SCALAR_TYPES[int(tensor.scalarType)]
            shape = [int(n) for n in tensor.sizes]
            return f"constant {number} ({kind} {shape}, value {value} of the method {method!r})"
    return f"constant {number}"


def _of_data(one: Mapping[str, Piece], other: Mapping[str, Piece]) -> Iterator[str]:
    for title in sorted({*one, *other}):
        if title not in one or title not in other:
            yield f"{title}: only the {'first' if title in one else 'second'} has it"
        elif sha256_of(one[title]) != sha256_of(other[title]):
            lines = first_byte(b"".join(chunks(one[title])), b"".join(chunks(other[title])))
            yield f"{title}: {'; '.join(lines)}"


def _of_fields(place: str, one: Any, other: Any) -> Iterator[str]:
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
            yield from _of_fields(f"{place}[{number}]", a, b)
    elif hasattr(one, "__dict__") and type(one) is type(other):
        for name in sorted({*vars(one), *vars(other)}):
            yield from _of_fields(
                f"{place}.{name}", getattr(one, name, None), getattr(other, name, None)
            )
    elif one != other:
        yield f"{place}: {one!r} and {other!r}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or getattr(value, "ndim", 0) > 0
