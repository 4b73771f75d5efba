"""Assembles a .pte from the tables and blobs of a lowered program, with some of its data left out.

Without changes the result must have the bytes of the file that was split, so segments, constants
and named data keep upstream's order, and padding is upstream's. With changes, constants that leave
the program become external tensors with a key, and the constants that stay are renumbered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from etbuild.errors import BuildError

from etlink import pte, schema
from etlink.container import REBUILD, Piece, Segment, aligned
from etlink.flatbuffer import DamagedError
from etlink.lowered import BaseSegment, Constant, Index, Lowered
from etlink.named_data import NamedData
from etlink.program_check import check_program
from etlink.tables import is_constant, payload_digest, tensors


@dataclass(frozen=True)
class Changes:
    """Differences between a linked program and the one that was lowered.

    Attributes:
      outside: keys of named data that stay out of the program.
      external: (plan, value) of a constant tensor to the key that it is loaded by.
      payloads: sha256 of a delegate's payload to the bytes that replace it.
    """

    outside: frozenset[str] = frozenset()
    external: Mapping[tuple[int, int], str] = field(default_factory=dict)
    payloads: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Assembled:
    """A program, ready to be written.

    Attributes:
      program: a ProgramT.
      segments: in the program's order.
      hashes: sha256 of the blobs that the segments consist of, hex, in order.
      alignments: of segments, of constants and of payloads in the tables, bytes.
    """

    program: Any
    segments: tuple[Segment, ...]
    hashes: tuple[str, ...]
    alignments: tuple[int, int, int]

    def write(self, out: BinaryIO) -> str:
        """Writes the program, in bounded memory.

        Returns:
          Its frame: a digest of its tables and of the blobs that follow them. Two programs of the
          same frame have the same bytes.
        """
        head = pte.write(out, self.program, self.segments, *self.alignments)
        text = json.dumps([hashlib.sha256(head).hexdigest(), *self.hashes])
        return hashlib.sha256(text.encode()).hexdigest()


def assemble(lowered: Lowered, changes: Changes | None = None) -> Assembled:
    """Assembles a program.

    Args:
      lowered: the lowered program.
      changes: what differs from it; None: nothing, which gives the bytes of upstream's API.

    Raises:
      BuildError: the lowered program's tables are damaged.
    """
    changes = changes or Changes()
    index = lowered.index
    try:
        program = schema.unpack_program(lowered.program())
        check_program(program, [segment.size for segment in index.segments])
        _check_index(program, index)
    except BuildError:
        raise
    except Exception as error:  # The generated code raises whatever damaged numbers lead to.
        raise BuildError(
            f"{lowered.folder}: the program's tables cannot be read ({error}).", REBUILD
        ) from error
    constants = _make_external(program, index, changes.external)
    segments: list[Segment] = []
    hashes: list[str] = []
    for base in index.segments:
        segment, parts = _base_segment(lowered, program, base, constants, changes)
        segments.append(segment)
        hashes += parts
    for item in program.backendDelegateData or []:
        item.data = changes.payloads.get(payload_digest(item), item.data)
    outside = changes.outside | index.external.keys()
    kept = [n for n in index.named_data if n.key not in outside]
    _add_named(lowered, program, segments, hashes, kept)
    alignments = (index.segment_alignment, index.tensor_alignment, index.delegate_alignment)
    return Assembled(program, tuple(segments), tuple(hashes), alignments)


def _check_index(program: Any, index: Index) -> None:
    """Fails for an index of another program than that of the tables."""
    buffers = {c.buffer for c in index.constants}
    constants = set()
    for plan, number, tensor in tensors(program):
        if not is_constant(tensor):
            continue
        constants.add((plan, number))
        if index.constants and tensor.dataBufferIdx not in buffers:
            raise DamagedError(f"the index lacks constant {tensor.dataBufferIdx}")
    for named in index.tensors:
        if (named.plan, named.value) not in constants:
            raise DamagedError(
                f"the index has a weight at value {named.value} of method {named.plan}, but the "
                "tables have none"
            )
    if any(s.kind == "constants" for s in index.segments) and program.constantSegment is None:
        raise DamagedError("the index has constants, but the tables refer to none")


def _base_segment(
    lowered: Lowered,
    program: Any,
    base: BaseSegment,
    constants: Sequence[Constant],
    changes: Changes,
) -> tuple[Segment, list[str]]:
    if base.kind != "constants":
        if base.sha256 in changes.payloads:
            data = changes.payloads[base.sha256]
            return Segment((Piece.of(data),)), [hashlib.sha256(data).hexdigest()]
        return Segment((lowered.piece(base.sha256, base.size),)), [base.sha256]
    pieces: list[Piece] = []
    offsets: list[int] = []
    end = 0
    for number, constant in enumerate(constants):
        offsets.append(end)
        pieces.append(lowered.piece(constant.sha256, constant.size))
        end += constant.size
        if number + 1 < len(constants):
            padding = aligned(end, lowered.index.tensor_alignment) - end
            pieces.append(Piece.of(bytes(padding)))
            end += padding
    if changes.external and len(constants) > 1 and not end:
        # Only empty tensors are left: the runtime takes a segment without bytes for none at all.
        pieces.append(Piece.of(bytes(lowered.index.tensor_alignment)))
    program.constantSegment.offsets = offsets
    return Segment(tuple(p for p in pieces if p.size)), [c.sha256 for c in constants]


def _make_external(
    program: Any, index: Index, external: Mapping[tuple[int, int], str]
) -> list[Constant]:
    """Makes tensors external, by key; returns the constants that the program still needs."""
    if not external:
        return list(index.constants)
    outside = schema.program_class("TensorDataLocation").EXTERNAL
    order: dict[str, int] = {}
    for (plan, value), key in sorted(external.items()):
        tensor = program.executionPlan[plan].values[value].val
        info = tensor.extraTensorInfo or schema.program_class("ExtraTensorInfoT")()
        info.fullyQualifiedName = key
        info.location = outside
        tensor.extraTensorInfo = info
        tensor.dataBufferIdx = order.setdefault(key, len(order))
    used = {0} | {t.dataBufferIdx for _, _, t in tensors(program) if is_constant(t)}
    kept = [c for c in index.constants if c.buffer in used]
    renumbered = {c.buffer: number for number, c in enumerate(kept)}
    for _, _, tensor in tensors(program):
        if is_constant(tensor):
            tensor.dataBufferIdx = renumbered[tensor.dataBufferIdx]
    return kept


def _add_named(
    lowered: Lowered,
    program: Any,
    segments: list[Segment],
    hashes: list[str],
    named: Sequence[NamedData],
) -> None:
    segment_of: dict[str, int] = {}
    tables = []
    for item in named:
        if item.sha256 not in segment_of:
            segment_of[item.sha256] = len(segments)
            segments.append(Segment((lowered.piece(item.sha256, item.size),), item.alignment))
            hashes.append(item.sha256)
        table = schema.program_class("NamedDataT")()
        table.key = item.key
        table.segmentIndex = segment_of[item.sha256]
        tables.append(table)
    if program.namedData is not None:
        program.namedData = tables
