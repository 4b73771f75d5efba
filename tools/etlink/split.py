"""Takes a .pte file apart: tables, blobs and an index, so that caches hold a weight once."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import payload, pte, schema
from etlink.assemble import assemble
from etlink.container import Digest, Piece, chunks, sha256_of
from etlink.data import is_stable
from etlink.lowered import (
    BaseSegment,
    Constant,
    Index,
    Lowered,
    NamedData,
    PayloadNames,
    TensorName,
    store,
    write_index,
)
from etlink.payload import Payload
from etlink.ptd import Layout
from etlink.tables import (
    SCALAR_TYPES,
    constant_sizes,
    describe_methods,
    inline_payloads,
    is_constant,
    is_external,
    outputs_of,
    payload_digest,
    tensor_bytes,
    tensors,
    text,
)

# Bytes: a smaller constant that export made up isn't worth a key of its own.
SMALLEST_CONSTANT = 1024


@dataclass(frozen=True)
class Weight:
    """A tensor of the model, as it was exported.

    Attributes:
      name: qualified name.
      dtype: "float32", "int8", …
      shape: elements per dimension.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Hints:
    """What the file doesn't say and the exporter knows.

    Attributes:
      alignments: bytes by named data key.
      layouts: element type and shape by named data key.
      weights: gives, for sizes in bytes, the sha256 of each weight of such a size and what it is:
        for named data of backends whose payloads aren't read here.
      payloads: sha256 of a payload to the names of its constants, in its order; more than one
        where payloads of the same bytes hold different weights.
      tensors: (plan, value) to qualified name: weights that may be loaded by name.
      own: names that the model's author gave; others may be made up by export.
      folded: (plan, value) to the name of the weight that quantization made a constant from.
      external: data that the recipe moved out of the program: key to (tag, bytes, alignment,
        layout).
      segment_alignment: bytes.
      tensor_alignment: of constants, bytes.
      delegate_alignment: of payloads in the tables, bytes.
    """

    alignments: Mapping[str, int] = field(default_factory=dict)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    weights: Callable[[Set[int]], Mapping[str, Sequence[Weight]]] = lambda sizes: {}
    payloads: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    tensors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    own: Set[str] = frozenset()
    folded: Mapping[tuple[int, int], str] = field(default_factory=dict)
    external: Mapping[str, tuple[str, Piece, int, Layout | None]] = field(default_factory=dict)
    segment_alignment: int = pte.SEGMENT_ALIGNMENT
    tensor_alignment: int = schema.INLINE_ALIGNMENT
    delegate_alignment: int = schema.INLINE_ALIGNMENT


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
            base.append(BaseSegment(kind, store(folder, file.piece(number)).sha256, size))
    _check_payloads(path, program, len(base))
    _check_outputs(label, program)
    payloads = _payloads(file, base)
    parsed = {blob: found.parsed for blob, found in payloads.items() if found.parsed}
    index = Index(
        label=label,
        sha256=sha256_of(Piece.of_file(path)),
        size=path.stat().st_size,
        frame="",
        versions=dict(versions),
        segment_alignment=hints.segment_alignment,
        tensor_alignment=hints.tensor_alignment,
        delegate_alignment=hints.delegate_alignment,
        segments=tuple(base),
        constants=_store_constants(file, folder, constants_at),
        tensors=_tensor_names(program, hints),
        named_data=described(_store_named(file, folder, hints), parsed, hints),
        methods=_methods(program, base, payloads),
        payloads=tuple(
            PayloadNames(blob, names)
            for blob in sorted(payloads)
            for names in sorted(set(hints.payloads.get(blob, ())))
        ),
        packings=tuple(sorted({p for found in parsed.values() for p in found.packings})),
        unread=tuple(sorted(_xnnpack_payloads(program, base) - parsed.keys())),
    )
    program.segments = []
    program.namedData = [] if program.namedData is not None else None
    (folder / "program.bin").write_bytes(schema.pack_program(program))
    index = replace(index, frame=_checked_frame(Lowered(folder, index)))
    write_index(folder, index)
    return index


def _check_payloads(path: Path, program: Any, count: int) -> None:
    for plan in program.executionPlan or []:
        for delegate in plan.delegates or []:
            processed = delegate.processed
            in_segment = processed.location == schema.program_class("DataLocation").SEGMENT
            if in_segment and processed.index >= count:
                raise BuildError(
                    f"{path}: the payload of {text(delegate.id)} is segment {processed.index}, "
                    "which is named data; this is not known."
                )


def _check_outputs(label: str, program: Any) -> None:
    """Fails for an output that is loaded by a key: the runtime gives zeros for it."""
    outputs = outputs_of(program)
    for plan, value, tensor in tensors(program):
        if (plan, value) in outputs and is_external(tensor):
            raise BuildError(
                f'{label}: method "{text(program.executionPlan[plan].name)}": an output is the '
                f'weight "{text(tensor.extraTensorInfo.fullyQualifiedName)}", which the recipe '
                "moves out of the program, and for which the runtime would give zeros.",
                'Leave external_constants out of the recipe, and set weights = "separate" on the '
                "program; or do not return the weight.",
            )


def _checked_frame(lowered: Lowered) -> str:
    """The frame of what linking gives back, which must be the file itself."""
    out = _HashingFile()
    frame = assemble(lowered).write(out)
    if out.digest.hexdigest() != lowered.index.sha256:
        raise BuildError(
            f"{lowered.index.label}: the program can't be put together again as it was: its file "
            "has a layout that isn't known here.",
            "Is this another version of ExecuTorch? Please report it with the version.",
        )
    return frame


class _HashingFile(io.RawIOBase):
    """A file of which only the digest is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)


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
        found.append(Constant(buffer, blob.sha256, length, blob.crc32))
    return tuple(found)


def _store_named(file: pte.ProgramFile, folder: Path, hints: Hints) -> tuple[NamedData, ...]:
    stored: dict[int, Digest] = {}
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
                stored[number].sha256,
                piece.size,
                stored[number].crc32,
                hints.alignments.get(key, 1),
                layout=hints.layouts.get(key),
            )
        )
    for key, (tag, piece, alignment, layout) in sorted(hints.external.items()):
        blob = store(folder, piece)
        names = (key,) if layout else ()
        found.append(
            NamedData(key, blob.sha256, piece.size, blob.crc32, alignment, tag, layout, names)
        )
    return tuple(found)


def _tensor_names(program: Any, hints: Hints) -> tuple[TensorName, ...]:
    """The weights, and large constants without a name."""
    found = []
    outputs = outputs_of(program)
    for plan, value, tensor in tensors(program):
        if (plan, value) in outputs:
            # The runtime gives zeros for an output that it would load by a key.
            continue
        name = hints.tensors.get((plan, value), "")
        by_name = name in hints.own or is_stable(name)
        if not by_name:
            name = hints.folded.get((plan, value), "")
        if not is_constant(tensor) or not (by_name or tensor_bytes(tensor) >= SMALLEST_CONSTANT):
            continue
        layout = Layout(
            int(tensor.scalarType),
            tuple(int(n) for n in tensor.sizes),
            tuple(int(n) for n in tensor.dimOrder),
        )
        found.append(TensorName(plan, value, name, by_name, tensor.dataBufferIdx, layout))
    return tuple(found)


def described(
    named: Sequence[NamedData], payloads: Mapping[str, Payload], hints: Hints
) -> tuple[NamedData, ...]:
    """Adds to named data what payloads say of their types, and which weights use them."""
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    names: dict[str, set[str]] = {}
    for blob, parsed in sorted(payloads.items()):
        for place, constant in enumerate(parsed.constants):
            if constant.key and constant.dtype:
                types.setdefault(constant.key, (constant.dtype, constant.shape))
            for listed in hints.payloads.get(blob, ()):
                if place < len(listed) and listed[place]:
                    names.setdefault(constant.key, set()).add(listed[place])
    unknown = [n for n in named if n.key not in names]
    weights = hints.weights({n.size for n in unknown})
    for item in unknown:
        for weight in weights.get(item.blob, ()):
            names.setdefault(item.key, set()).add(weight.name)
            types.setdefault(item.key, (weight.dtype, weight.shape))
    found = []
    for item in named:
        dtype, shape = types.get(item.key, ("", ()))
        if item.layout:
            # Other weights of equal bytes may have other shapes.
            dtype = SCALAR_TYPES[item.layout.scalar_type][0]
            shape = item.layout.sizes
        known = item.names or tuple(sorted(names.get(item.key, ())))
        found.append(replace(item, names=known, dtype=dtype, shape=shape))
    return tuple(found)


@dataclass(frozen=True)
class _Delegated:
    """What a delegate's payload says: the payload, if it can be read, and whether it has keys."""

    parsed: Payload | None
    named_data: bool


def _payloads(file: pte.ProgramFile, base: Sequence[BaseSegment]) -> dict[str, _Delegated]:
    """The payloads by sha256."""
    keys = [item.key for item in file.program.namedData or []]
    found: dict[str, _Delegated] = {}

    def add(blob: str, data: bytes) -> None:
        found[blob] = _Delegated(payload.read(data), any(key in data for key in keys))

    for number, segment in enumerate(base):
        if segment.kind == "delegate" and segment.size and segment.blob not in found:
            add(segment.blob, b"".join(chunks(file.piece(number))))
    for blob, data in inline_payloads(file.program).items():
        add(blob, data)
    return found


def _xnnpack_payloads(program: Any, base: Sequence[BaseSegment]) -> set[str]:
    """The sha256 of each payload of XNNPACK."""
    in_tables = [payload_digest(item) for item in program.backendDelegateData or []]
    found = set()
    for plan in program.executionPlan:
        for delegate in plan.delegates or []:
            if text(delegate.id) == payload.BACKEND:
                at = delegate.processed
                in_segment = at.location == schema.program_class("DataLocation").SEGMENT
                found.add(base[at.index].blob if in_segment else in_tables[at.index])
    return found


def _methods(
    program: Any, base: Sequence[BaseSegment], delegated: Mapping[str, _Delegated]
) -> tuple[dict[str, Any], ...]:
    """Descriptions of the methods, with the payloads of each backend."""
    found = []
    for plan, method in zip(program.executionPlan, describe_methods(program), strict=True):
        payloads: dict[str, dict[str, Any]] = {}
        for delegate in plan.delegates or []:
            if delegate.processed.location != schema.program_class("DataLocation").SEGMENT:
                continue
            segment = base[delegate.processed.index]
            of = payloads.setdefault(text(delegate.id), {"blobs": {}, "named_data": False})
            of["blobs"][segment.blob] = segment.size
            of["named_data"] |= segment.blob in delegated and delegated[segment.blob].named_data
        found.append({**method, "payloads": payloads})
    return tuple(found)
