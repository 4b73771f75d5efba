"""Splits a .pte file into tables, blobs and an index, so that caches hold a weight once.

The file is upstream's; nothing of it is lost: splitting ends with assembling the program again and
comparing its hash with the file's, so that a format that is not understood fails here and not at
run time. What the file does not say (names of weights, alignments, what the recipe moved out) comes
from the exporter as `Hints`. Hashes of weights are computed once, here; later steps only compare.
"""

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
from etlink.declared_sizes import InputSizes, fits
from etlink.json_file import encode
from etlink.lowered import (
    BaseSegment,
    Constant,
    Index,
    Lowered,
    PayloadNames,
    TensorName,
    store,
    write_index,
)
from etlink.named_data import Layout, NamedData, is_stable
from etlink.payload import Payload
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

# Bytes: a smaller constant without a name is not worth a key of its own.
_SMALLEST_CONSTANT = 1024

_REPORT = "Is this another version of ExecuTorch? Report it with the version."


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
    """The facts that the file does not say and the exporter knows.

    Attributes:
      alignments: bytes by named data key.
      layouts: element type and shape by named data key.
      weights: gives, for sizes in bytes, the sha256 of each weight of such a size and what it is:
        for named data of backends whose payloads are not read here.
      payloads: sha256 of a payload to the names of its constants, in its order; more than one
        where payloads of the same bytes hold different weights.
      tensors: (plan, value) to qualified name: weights that may be loaded by name.
      own: names that the model's author gave; export may have made others by counting.
      folded: (plan, value) to the name of the weight that quantization made a constant from.
      external: data that the recipe moved out of the program: key to (tag, bytes, alignment,
        layout).
      sizes: of inputs with a dynamic dimension, by method.
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
    sizes: Mapping[str, Sequence[InputSizes]] = field(default_factory=dict)
    segment_alignment: int = pte.SEGMENT_ALIGNMENT
    tensor_alignment: int = schema.INLINE_ALIGNMENT
    delegate_alignment: int = schema.INLINE_ALIGNMENT


def split(
    path: Path, folder: Path, label: str, versions: Mapping[str, str], hints: Hints | None = None
) -> Index:
    """Splits a .pte file into a lowered program.

    Args:
      path: the file, as upstream's API wrote it.
      folder: where to; it is created.
      label: the target, for messages of later steps.
      versions: of executorch, torch, Python.
      hints: what the file does not say.

    Returns:
      The index, which is written, too.

    Raises:
      BuildError: the file is damaged, or has an unknown layout.
    """
    hints = hints or Hints()
    folder.mkdir(parents=True, exist_ok=True)
    file = pte.read(path)
    program = file.program
    constants_at = _constants_segment(file)
    base = _base_segments(file, folder, constants_at)
    _check_payloads(path, program, len(base))
    _check_outputs(label, program)
    payloads = _payloads(file, base)
    parsed = {sha256: p.parsed for sha256, p in payloads.items() if p.parsed}
    index = Index(
        label=label,
        sha256=sha256_of(path),
        size=path.stat().st_size,
        frame="",
        versions=dict(versions),
        segment_alignment=hints.segment_alignment,
        tensor_alignment=hints.tensor_alignment,
        delegate_alignment=hints.delegate_alignment,
        segments=tuple(base),
        constants=_store_constants(file, folder, constants_at),
        tensors=_tensor_names(program, hints),
        named_data=_describe(_store_named(file, folder, hints), parsed, hints),
        external={key: tag for key, (tag, *_) in hints.external.items()},
        methods=_methods(program, base, payloads, hints.sizes),
        payloads=tuple(
            PayloadNames(sha256, names)
            for sha256 in sorted(payloads)
            for names in sorted(set(hints.payloads.get(sha256, ())))
        ),
        packings=tuple(sorted({packing for p in parsed.values() for packing in p.packings})),
        unread=tuple(sorted(_xnnpack_payloads(program, base) - parsed.keys())),
    )
    program.segments = []
    program.namedData = [] if program.namedData is not None else None
    (folder / "program.bin").write_bytes(schema.pack_program(program))
    index = replace(index, frame=_checked_frame(Lowered(folder, index)))
    write_index(folder, index)
    return index


def _base_segments(file: pte.ProgramFile, folder: Path, constants_at: int) -> list[BaseSegment]:
    """Stores the segments before the named data."""
    named = {n.segmentIndex for n in file.program.namedData or []}
    mutable = {s.segmentIndex for s in file.program.mutableDataSegments or []}
    base: list[BaseSegment] = []
    for number, (_, size) in enumerate(file.segments):
        if number in named:
            continue
        if number != len(base):
            raise BuildError(
                f"{file.path}: unknown layout: segment {number} follows named data.", _REPORT
            )
        if number == constants_at:
            base.append(BaseSegment("constants", "", size))
        else:
            kind = "mutable" if number in mutable else "delegate"
            base.append(BaseSegment(kind, store(folder, file.piece(number)).sha256, size))
    return base


def _check_payloads(path: Path, program: Any, count: int) -> None:
    for plan in program.executionPlan or []:
        for delegate in plan.delegates or []:
            processed = delegate.processed
            in_segment = processed.location == schema.program_class("DataLocation").SEGMENT
            if in_segment and processed.index >= count:
                raise BuildError(
                    f"{path}: unknown layout: the payload of {text(delegate.id)} is segment "
                    f"{processed.index}, which is named data.",
                    _REPORT,
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
    """The frame of the program when it is assembled again, which must give the file itself."""
    out = _HashingFile()
    frame = assemble(lowered).write(out)
    if out.digest.hexdigest() != lowered.index.sha256:
        raise BuildError(
            f"{lowered.index.label}: the program cannot be assembled again as it was: its file has "
            "an unknown layout.",
            _REPORT,
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
    constants = []
    for buffer, offset in enumerate(offsets):
        until = offsets[buffer + 1] if buffer + 1 < len(offsets) else size
        # Padding follows a constant; what the tensors use of it is the constant itself.
        length = min(used.get(buffer, until - offset), until - offset)
        digest = store(folder, Piece(length, path=file.path, offset=start + offset))
        constants.append(Constant(buffer, digest.sha256, length, digest.crc32))
    return tuple(constants)


def _store_named(file: pte.ProgramFile, folder: Path, hints: Hints) -> list[NamedData]:
    """Stores named data: those of the file, in its order, then those that the recipe moved out."""
    stored: dict[int, Digest] = {}
    data = []
    for item in file.program.namedData or []:
        key, number = item.key.decode(), item.segmentIndex
        piece = file.piece(number)
        if number not in stored:
            stored[number] = store(folder, piece)
        alignment = hints.alignments.get(key, 1)
        data.append(_stored(key, piece, stored[number], alignment, hints.layouts.get(key)))
    for key, (_, piece, alignment, layout) in sorted(hints.external.items()):
        item = _stored(key, piece, store(folder, piece), alignment, layout)
        data.append(replace(item, names=(key,) if layout else ()))
    return data


def _stored(
    key: str, piece: Piece, digest: Digest, alignment: int, layout: Layout | None
) -> NamedData:
    return NamedData(
        key=key,
        sha256=digest.sha256,
        size=piece.size,
        crc32=digest.crc32,
        alignment=alignment,
        by_name=digest.sha256 not in key,
        layout=layout,
    )


def _tensor_names(program: Any, hints: Hints) -> tuple[TensorName, ...]:
    """The weights, and large constants without a name."""
    names = []
    outputs = outputs_of(program)
    for plan, value, tensor in tensors(program):
        if (plan, value) in outputs:
            # The runtime gives zeros for an output that it would load by a key.
            continue
        name = hints.tensors.get((plan, value), "")
        by_name = name in hints.own or is_stable(name)
        if not by_name:
            name = hints.folded.get((plan, value), "")
        if not is_constant(tensor) or not (by_name or tensor_bytes(tensor) >= _SMALLEST_CONSTANT):
            continue
        layout = Layout(
            int(tensor.scalarType),
            tuple(int(n) for n in tensor.sizes),
            tuple(int(n) for n in tensor.dimOrder),
        )
        names.append(
            TensorName(
                plan=plan,
                value=value,
                name=name,
                by_name=by_name,
                buffer=tensor.dataBufferIdx,
                layout=layout,
            )
        )
    return tuple(names)


def _describe(
    data: Sequence[NamedData], payloads: Mapping[str, Payload], hints: Hints
) -> tuple[NamedData, ...]:
    """Adds to named data what payloads say of their types, and which weights use them."""
    types: dict[str, tuple[str, tuple[int, ...]]] = {}
    names: dict[str, set[str]] = {}
    for sha256, parsed in sorted(payloads.items()):
        for number, constant in enumerate(parsed.constants):
            if constant.key and constant.dtype:
                types.setdefault(constant.key, (constant.dtype, constant.shape))
            for of_payload in hints.payloads.get(sha256, ()):
                if number < len(of_payload) and of_payload[number]:
                    names.setdefault(constant.key, set()).add(of_payload[number])
    unknown = [item for item in data if item.key not in names]
    weights = hints.weights({item.size for item in unknown})
    for item in unknown:
        for weight in weights.get(item.sha256, ()):
            names.setdefault(item.key, set()).add(weight.name)
            types.setdefault(item.key, (weight.dtype, weight.shape))
    described = []
    for item in data:
        dtype, shape = types.get(item.key, ("", ()))
        if item.layout:
            # Other weights of equal bytes may have other shapes.
            dtype = SCALAR_TYPES[item.layout.scalar_type][0]
            shape = item.layout.sizes
        known = item.names or tuple(sorted(names.get(item.key, ())))
        described.append(replace(item, names=known, dtype=dtype, shape=shape))
    return tuple(described)


@dataclass(frozen=True)
class _Delegated:
    """The payload of a delegate, if it can be read, and whether it has keys."""

    parsed: Payload | None
    named_data: bool


def _payloads(file: pte.ProgramFile, base: Sequence[BaseSegment]) -> dict[str, _Delegated]:
    """The payloads by sha256."""
    keys = [item.key for item in file.program.namedData or []]
    payloads: dict[str, _Delegated] = {}

    def add(sha256: str, data: bytes) -> None:
        payloads[sha256] = _Delegated(payload.read(data), any(key in data for key in keys))

    for number, segment in enumerate(base):
        if segment.kind == "delegate" and segment.size and segment.sha256 not in payloads:
            add(segment.sha256, b"".join(chunks(file.piece(number))))
    for sha256, data in inline_payloads(file.program).items():
        add(sha256, data)
    return payloads


def _xnnpack_payloads(program: Any, base: Sequence[BaseSegment]) -> set[str]:
    """The sha256 of each payload of XNNPACK."""
    in_tables = [payload_digest(item) for item in program.backendDelegateData or []]
    hashes = set()
    for plan in program.executionPlan:
        for delegate in plan.delegates or []:
            if text(delegate.id) == payload.BACKEND:
                processed = delegate.processed
                in_segment = processed.location == schema.program_class("DataLocation").SEGMENT
                hashes.add(
                    base[processed.index].sha256 if in_segment else in_tables[processed.index]
                )
    return hashes


def _methods(
    program: Any,
    base: Sequence[BaseSegment],
    delegated: Mapping[str, _Delegated],
    sizes: Mapping[str, Sequence[InputSizes]],
) -> tuple[dict[str, Any], ...]:
    """Descriptions of the methods, with the payloads of each backend."""
    methods = []
    in_tables = [
        (payload_digest(item), len(item.data or b"")) for item in program.backendDelegateData or []
    ]
    in_segment = schema.program_class("DataLocation").SEGMENT
    for plan, method in zip(program.executionPlan, describe_methods(program), strict=True):
        payloads: dict[str, dict[str, Any]] = {}
        for delegate in plan.delegates or []:
            processed = delegate.processed
            if processed.location == in_segment:
                sha256, size = base[processed.index].sha256, base[processed.index].size
            else:
                sha256, size = in_tables[processed.index]
            of = payloads.setdefault(text(delegate.id), {"blobs": {}, "named_data": False})
            of["blobs"][sha256] = size
            of["named_data"] |= sha256 in delegated and delegated[sha256].named_data
        declared = sizes.get(method["name"], ())
        dynamic = encode(declared) if fits(declared, method["inputs"]) else []
        methods.append({**method, "payloads": payloads, "sizes": dynamic})
    return tuple(methods)
