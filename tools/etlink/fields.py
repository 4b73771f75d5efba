"""Fields of flatbuffer tables that have no generated classes, by their number in the schema."""

from __future__ import annotations

from etlink.flatbuffer import Table


def offset_of(table: Table, number: int) -> int:
    """Offset of a field in its table; 0: the field has its default."""
    return table.Offset(4 + 2 * number)


def number(table: Table, place: int, flags: type, default: int = 0) -> int | float:
    """A number; `flags` says of what type it is."""
    offset = offset_of(table, place)
    return table.Get(flags, table.Pos + offset) if offset else default


def numbers_of(table: Table, place: int, flags: type, width: int) -> tuple[int, ...]:
    """A vector of integers, each `width` bytes wide."""
    offset = offset_of(table, place)
    if not offset:
        return ()
    start = table.Vector(offset)
    return tuple(int(table.Get(flags, start + width * n)) for n in range(table.VectorLen(offset)))


def text_of(table: Table, place: int) -> str:
    """A string; empty where it is absent."""
    offset = offset_of(table, place)
    return table.String(table.Pos + offset).decode() if offset else ""


def field_table(table: Table, place: int) -> Table | None:
    """A table, or the content of a union."""
    offset = offset_of(table, place)
    return Table(table.Bytes, table.Indirect(table.Pos + offset)) if offset else None


def field_tables(table: Table, place: int) -> list[Table]:
    """A vector of tables."""
    offset = offset_of(table, place)
    if not offset:
        return []
    start = table.Vector(offset)
    return [
        Table(table.Bytes, table.Indirect(start + 4 * n)) for n in range(table.VectorLen(offset))
    ]
