"""Takes a .pte file apart: tables, blobs and an index, so that caches hold a weight once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import pte, schema
from etlink.container import Piece
from etlink.lowered import (
    BaseSegment,
    Constant,
    Index,
    NamedData,
    TensorName,
    sha256_of,
    store,
    write_index,
)
from etlink.ptd import Layout
from etlink.tables import constant_sizes, describe_methods


@dataclass(frozen=True)
class Hints:
    """What the file doesn't say and the exporter knows.

    Attributes:
      alignments: bytes by named data key.
      layouts: element type and shape by named data key.
      names: qualified names by named data key.
      tensors: (plan, value) to qualified name: weights that may be loaded by name.
      external: data that the recipe moved out of the program: key to (tag, bytes, alignment,
        layout).
      segment_alignment: bytes.
      tensor_alignment: bytes.
    """

    alignments: Mapping[str, int] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tensors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    external: Mapping[str, tuple[str, Piece, int, Layout | None]] = field(default_factory=dict)
    segment_alignment: int = pte.SEGMENT_ALIGNMENT
    tensor_alignment: int = schema.INLINE_ALIGNMENT


def split(
    path: Path, folder: Path, label: str, versions: Mapping[str, str], hints: Hints | None = None
) -> Index:
    """Splits a .pte file into a lowered program.

    Args:
      path: the file, as upstream's API wrote it.
      folder: where to; made here.
      label: the target, for messages of later steps.
      versions: of executorch, torch, Python.
      hints: what the file doesn't say.

    Returns:
      The index, which is written, too.

    Raises:
      BuildError: the file is damaged or has a layout that isn't known here.
    """
    hints = hints or Hints()
    folder.mkdir(parents=True, exist_ok=True)
    file = pte.read(path)
    program = file.program
    named_segments = {n.segmentIndex for n in program.namedData or []}
    constants_at = _constants_segment(file)
    mutable_at = {s.segmentIndex for s in program.mutableDataSegments or []}
    base: list[BaseSegment] = []
    for number, (_, size) in enumerate(file.segments):
        if number in named_segments:
            continue
        if number != len(base):
            raise BuildError(f"{path}: segment {number} follows named data; this is not known.")
        if number == constants_at:
            base.append(BaseSegment("constants", "", size))
        else:
            kind = "mutable" if number in mutable_at else "delegate"
            base.append(BaseSegment(kind, store(folder, file.piece(number)), size))
    index = Index(
        label=label,
        sha256=sha256_of(path),
        size=path.stat().st_size,
        versions=dict(versions),
        segment_alignment=hints.segment_alignment,
        tensor_alignment=hints.tensor_alignment,
        segments=tuple(base),
        constants=_store_constants(file, folder, constants_at),
        tensors=_tensor_names(program, hints),
        named_data=_store_named(file, folder, hints),
        methods=tuple(describe_methods(program)),
    )
    program.segments = []
    program.namedData = [] if program.namedData is not None else None
    (folder / "program.bin").write_bytes(schema.pack_program(program))
    write_index(folder, index)
    return index


def _constants_segment(file: pte.ProgramFile) -> int:
    """Number of the constant segment; -1: there is none."""
    table = file.program.constantSegment
    has_offsets = table is not None and table.offsets is not None and len(table.offsets) > 0
    return table.segmentIndex if has_offsets and file.segments else -1


def _store_constants(file: pte.ProgramFile, folder: Path, at: int) -> tuple[Constant, ...]:
    if at < 0:
        return ()
    start, size = file.segments[at]
    offsets = [int(o) for o in file.program.constantSegment.offsets]
    used = constant_sizes(file.program)
    found = []
    for buffer, offset in enumerate(offsets):
        until = offsets[buffer + 1] if buffer + 1 < len(offsets) else size
        # Padding follows a constant; what the tensors use of it is the constant itself.
        length = min(used.get(buffer, until - offset), until - offset)
        blob = store(folder, Piece(length, path=file.path, offset=start + offset))
        found.append(Constant(buffer, blob, length))
    return tuple(found)


def _store_named(file: pte.ProgramFile, folder: Path, hints: Hints) -> tuple[NamedData, ...]:
    stored: dict[int, str] = {}
    found = []
    for item in file.program.namedData or []:
        key = item.key.decode()
        number = item.segmentIndex
        piece = file.piece(number)
        if number not in stored:
            stored[number] = store(folder, piece)
        found.append(
            NamedData(
                key,
                stored[number],
                piece.size,
                hints.alignments.get(key, 1),
                layout=hints.layouts.get(key),
                names=tuple(sorted(hints.names.get(key, ()))),
            )
        )
    for key, (tag, piece, alignment, layout) in sorted(hints.external.items()):
        blob = store(folder, piece)
        found.append(NamedData(key, blob, piece.size, alignment, tag, layout))
    return tuple(found)


def _tensor_names(program: Any, hints: Hints) -> tuple[TensorName, ...]:
    found = []
    for (plan, value), name in sorted(hints.tensors.items()):
        tensor = program.executionPlan[plan].values[value].val
        layout = Layout(
            int(tensor.scalarType),
            tuple(int(n) for n in tensor.sizes),
            tuple(int(n) for n in tensor.dimOrder),
        )
        found.append(TensorName(plan, value, name, tensor.dataBufferIdx, layout))
    return tuple(found)
