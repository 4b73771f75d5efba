"""Puts a lowered program's tables and blobs together: a .pte, and a .ptd if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import ptd, pte, schema
from etlink.container import REBUILD, Piece, Segment, aligned, write_atomically
from etlink.lowered import Constant, Index, Lowered, NamedData, TensorName, sha256_of
from etlink.tables import is_constant, tensors


@dataclass(frozen=True)
class Linked:
    """What linking wrote.

    Attributes:
      program_bytes: size of the .pte.
      data_bytes: size of the .ptd; 0: none was written.
      embedded: keys of the named data in the .pte, sorted.
      separate: keys of the .ptd, sorted.
    """

    program_bytes: int
    data_bytes: int
    embedded: tuple[str, ...]
    separate: tuple[str, ...]


def link(lowered: Lowered, program_path: Path, data_path: Path | None = None) -> Linked:
    """Links a program.

    Args:
      lowered: the lowered program.
      program_path: the .pte to write.
      data_path: where the weights go; None: into the .pte, which then has the bytes that
        upstream's API writes.

    Returns:
      What went where.

    Raises:
      BuildError: the recipe itself put data outside of the program and there is no data_path;
        two keys of the same name; an unwritable output.
    """
    index = lowered.index
    outside = [n for n in index.named_data if n.external]
    if outside and data_path is None:
        raise BuildError(
            f"{index.label}: its recipe moves {len(outside)} constants out of the program "
            f'(e.g. "{outside[0].key}"), but the program embeds its weights.',
            'Set weights = "separate" on the program.',
        )
    embedded = [] if data_path else list(index.named_data)
    program = _tables(lowered)
    moved = index.tensors if data_path else ()
    constants = _move_out(program, index, moved)
    segments = [_base_segment(lowered, program, s, constants) for s in index.segments]
    _add_named(lowered, program, segments, embedded)
    write_atomically(
        program_path, lambda out: pte.write(out, program, segments, index.segment_alignment)
    )
    if data_path is None:
        _check_same(index, program_path)
        return Linked(program_path.stat().st_size, 0, _keys(embedded), ())
    entries = _data_entries(lowered, index.named_data, moved)
    write_atomically(data_path, lambda out: ptd.write(out, entries))
    return Linked(
        program_path.stat().st_size,
        data_path.stat().st_size,
        (),
        tuple(sorted(e.key for e in entries)),
    )


def _tables(lowered: Lowered) -> Any:
    try:
        return schema.unpack_program(lowered.program())
    except Exception as error:
        raise BuildError(
            f"{lowered.folder}: the program's tables can't be read ({error}).", REBUILD
        ) from error


def _keys(named: Sequence[NamedData]) -> tuple[str, ...]:
    return tuple(sorted(n.key for n in named))


def _check_same(index: Index, path: Path) -> None:
    # The promise of byte identity is checked on every link, not only in tests.
    got = sha256_of(path)
    if got != index.sha256:
        path.unlink()
        raise BuildError(
            f"{index.label}: the linked program differs from the one that was lowered: got sha256 "
            f"{got}, wanted {index.sha256}.",
            "A blob of the lowered program is damaged; build with an empty cache and report this.",
        )


def _base_segment(
    lowered: Lowered, program: Any, segment: Any, constants: Sequence[Constant]
) -> Segment:
    if segment.kind != "constants":
        return Segment((lowered.piece(segment.blob, segment.size),))
    pieces: list[Piece] = []
    offsets: list[int] = []
    end = 0
    for number, constant in enumerate(constants):
        offsets.append(end)
        pieces.append(lowered.piece(constant.blob, constant.size))
        end += constant.size
        if number + 1 < len(constants):
            padding = aligned(end, lowered.index.tensor_alignment) - end
            pieces.append(Piece.of(bytes(padding)))
            end += padding
    program.constantSegment.offsets = offsets
    return Segment(tuple(p for p in pieces if p.size))


def _move_out(program: Any, index: Index, moved: Sequence[TensorName]) -> list[Constant]:
    """Makes tensors external, by name; returns the constants that the program still needs."""
    if not moved:
        return list(index.constants)
    external = schema.program_class("TensorDataLocation").EXTERNAL
    order: dict[int, int] = {}
    for item in moved:
        tensor = program.executionPlan[item.plan].values[item.value].val
        info = tensor.extraTensorInfo or schema.program_class("ExtraTensorInfoT")()
        info.fullyQualifiedName = item.name
        info.location = external
        tensor.extraTensorInfo = info
        tensor.dataBufferIdx = order.setdefault(item.buffer, len(order))
    still = {0} | {t.dataBufferIdx for _, _, t in tensors(program) if is_constant(t)}
    kept = [c for c in index.constants if c.buffer in still]
    renumbered = {c.buffer: number for number, c in enumerate(kept)}
    for _, _, tensor in tensors(program):
        if is_constant(tensor):
            tensor.dataBufferIdx = renumbered[tensor.dataBufferIdx]
    return kept


def _add_named(
    lowered: Lowered, program: Any, segments: list[Segment], named: Sequence[NamedData]
) -> None:
    segment_of: dict[str, int] = {}
    tables = []
    for item in named:
        if item.blob not in segment_of:
            segment_of[item.blob] = len(segments)
            segments.append(Segment((lowered.piece(item.blob, item.size),), item.alignment))
        table = schema.program_class("NamedDataT")()
        table.key = item.key
        table.segmentIndex = segment_of[item.blob]
        tables.append(table)
    if program.namedData is not None:
        program.namedData = tables


def _data_entries(
    lowered: Lowered, named: Sequence[NamedData], moved: Sequence[TensorName]
) -> list[ptd.Entry]:
    found: dict[str, ptd.Entry] = {}

    def add(entry: ptd.Entry) -> None:
        before = found.setdefault(entry.key, entry)
        if before.blob != entry.blob:
            raise BuildError(
                f'{lowered.index.label}: two data of the name "{entry.key}" have different bytes: '
                f"sha256 {before.blob} and {entry.blob}.",
                "Rename one of the parameters, or embed the weights.",
            )

    for item in named:
        piece = lowered.piece(item.blob, item.size)
        add(ptd.Entry(item.key, item.blob, piece, item.alignment, item.layout))
    constants = {c.buffer: c for c in lowered.index.constants}
    for weight in moved:
        constant = constants[weight.buffer]
        piece = lowered.piece(constant.blob, constant.size)
        alignment = lowered.index.tensor_alignment
        add(ptd.Entry(weight.name, constant.blob, piece, alignment, weight.layout))
    return list(found.values())
