"""Selects the objects of a static library that an app needs: those that register what it uses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from etbundle import static_library
from etbundle.scan import registered


@dataclass(frozen=True)
class Selected:
    """What is kept of a static library.

    Attributes:
        size: bytes of all objects that register something.
        selected_size: bytes of those that are kept.
        objects: names of those that are kept.
    """

    size: int
    selected_size: int
    objects: tuple[str, ...]


def select(
    library: Path,
    operators: Collection[str],
    backends: Collection[str],
    kept: Path,
    rest: Path,
    bsd: bool = False,
) -> Selected:
    """Splits a static library.

    Args:
        library: its file.
        operators: names of operators that programs use.
        backends: names of backends that they use.
        kept: library to write, of the objects that register one of these: they are linked, although
            nothing refers to them.
        rest: library to write, of the objects that register nothing: the linker takes what is
            referred to.
        bsd: whether these are for Apple's linkers.

    Returns:
        What was kept.

    Raises:
        BuildError: it is not a static library, or damaged.
    """
    needed, helpers, size = [], [], 0
    for member in static_library.read(library):
        names = registered(member.data, backends)
        if not (names.operators or registered(member.data).backends or names.backends):
            helpers.append(member)
            continue
        size += len(member.data)
        if set(names.operators) & set(operators) or set(names.backends) & set(backends):
            needed.append(member)
    static_library.write(kept, needed, bsd)
    static_library.write(rest, helpers, bsd)
    return Selected(size, sum(len(m.data) for m in needed), tuple(m.name for m in needed))
