"""Well-formed programs with invalid contents.

Most flipped bits make a flatbuffer unreadable. This module reads a program's tables, changes one
number, name or list, and writes them again, so the result is well-formed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from etlink import pte, schema
from etlink.container import aligned, insert_header

_HEADER = struct.Struct("<4sIQQQ")
# Not every number fits into every field.
_TRIES = 50

# Object, and the name or index of something in it.
_Reference = tuple[Any, str | int]


def mutants(path: Path, count: int, seed: str) -> Iterator[bytes]:
    """Variants of a program with a few changes.

    Args:
      path: a .pte file.
      count: how many.
      seed: the same one gives the same mutants.
    """
    generator = random.Random(seed)
    whole = path.read_bytes()
    for _ in range(count):
        yield mutant(path, whole, generator)


def mutant(path: Path, whole: bytes, generator: random.Random) -> bytes:
    """One program that differs from the one at `path`, whose bytes are `whole`."""
    for _ in range(_TRIES):
        program = pte.read(path).program
        for _ in range(generator.choice([1, 1, 1, 2, 5])):
            change(program, generator)
        try:
            tables = schema.pack_program(program)
        except (AttributeError, OverflowError, TypeError, ValueError, struct.error):
            continue
        return with_segments(tables, whole)
    raise AssertionError(f"no change of {path} can be written")


def with_segments(tables: bytes, whole: bytes) -> bytes:
    """Tables with the segments of another file, at the offsets that they have there."""
    magic, size, _, base, data_size = _HEADER.unpack_from(whole, 8)
    if magic != b"eh00":
        return tables
    start = aligned(_HEADER.size + len(tables), pte.SEGMENT_ALIGNMENT)
    header = _HEADER.pack(magic, size, _HEADER.size + len(tables), start, data_size)
    return insert_header(tables, header).ljust(start, b"\0") + whole[base:]


def change(program: Any, generator: random.Random) -> None:
    """Changes one thing in a program's tables, in place."""
    owner, name = generator.choice(list(_places(program)))
    value = owner[name] if isinstance(owner, list) else getattr(owner, name)
    new = _other(value, generator)
    if isinstance(owner, list):
        if generator.random() < 0.2:
            owner.insert(int(name), value)
        elif generator.random() < 0.2:
            del owner[int(name)]
        else:
            owner[int(name)] = new
    else:
        setattr(owner, str(name), new)


def _places(value: Any) -> Iterator[_Reference]:
    """All that can be changed in an object or list, however deep."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield value, number
            yield from _places(item)
    elif hasattr(value, "__dict__"):
        for name, item in vars(value).items():
            if hasattr(item, "tolist"):
                item = item.tolist()
                setattr(value, name, item)
            yield value, name
            yield from _places(item)


def _other(value: Any, generator: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        limits = [0, 1, 2, 127, 128, 255, 2**15, 2**31 - 1, 2**32 - 1, 2**62, -1, -(2**31)]
        return generator.choice([*limits, value + 1, value - 1, -value, value ^ 1 << 4])
    if isinstance(value, float):
        return generator.choice([0.0, -1.0, 1e300, float("nan"), float("inf")])
    if isinstance(value, bytes):
        cut = value[: len(value) // 2]
        return generator.choice([b"", b"\xff", cut, value * 2, b"x" * 300])
    if isinstance(value, list):
        kinds = [[], value * 2, value[:1], value[::-1], value + value[:1]]
        return generator.choice(kinds) if value else [0] * generator.choice([1, 3, 17, 1000])
    return None
