"""What data a program file holds, and what each of them is."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from etlink import payload, pte, schema, tables
from etlink.container import Piece, chunks

CONSTANT, NAMED, PAYLOAD, MUTABLE = "constant", "named data", "payload", "initial state"
_XNNPACK = "XnnpackBackend"


@dataclass(frozen=True)
class Datum:
    """A piece of data in a program.

    Attributes:
      title: how messages call it.
      kind: CONSTANT, NAMED, PAYLOAD or MUTABLE.
      name: key of named data; qualified name of a constant where the file has one, else its number.
      piece: the bytes.
      dtype: element type, where it is known: "float32", "qcint4", …
      shape: elements per dimension, where they are known.
      backend: the delegate's that a payload is for, or that named data are loaded by, if known.
      method: of a payload: the method that calls it; of a constant: the first that uses it.
    """

    title: str
    kind: str
    name: str
    piece: Piece
    dtype: str = ""
    shape: tuple[int, ...] = ()
    backend: str = ""
    method: str = ""


@dataclass(frozen=True)
class Wanted:
    """A key that a program loads data by.

    Attributes:
      key: the key.
      method: that needs it.
      backend: whose delegate asks for it; empty: the runtime itself does.
      dtype: element type, where it is known.
      shape: elements per dimension, where they are known.
    """

    key: str
    method: str
    backend: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()


def data_of(file: pte.ProgramFile) -> list[Datum]:
    """All data of a program: constants, initial state, payloads of delegates, named data."""
    wanted = {w.key: w for w in wanted_keys(file)}
    found = [*_constants(file), *_payloads(file)]
    for named in file.program.namedData or []:
        key = tables.text(named.key)
        by = wanted.get(key, Wanted(key, ""))
        piece = file.piece(named.segmentIndex)
        title = f"data {key!r}"
        found.append(Datum(title, NAMED, key, piece, by.dtype, by.shape, by.backend, by.method))
    for number, place in enumerate(file.program.mutableDataSegments or []):
        piece = file.piece(place.segmentIndex)
        found.append(Datum(f"initial state {number}", MUTABLE, f"initial state {number}", piece))
    return found


def wanted_keys(file: pte.ProgramFile) -> list[Wanted]:
    """Keys that a program asks for, each once: portable tensors' and XNNPACK's.

    Other backends keep their keys in payloads that only they can read.
    """
    found: dict[str, Wanted] = {}
    for plan, _, tensor in tables.tensors(file.program):
        if tables.is_external(tensor):
            key = tables.text(tensor.extraTensorInfo.fullyQualifiedName)
            method = tables.text(file.program.executionPlan[plan].name)
            found.setdefault(key, Wanted(key, method, "", *_described(tensor)))
    for one in _payloads(file):
        if one.backend != _XNNPACK:
            continue
        read = payload.read(b"".join(chunks(one.piece)))
        for constant in read.constants if read else ():
            if constant.key:
                known = Wanted(
                    constant.key, one.method, one.backend, constant.dtype, constant.shape
                )
                found.setdefault(constant.key, known)
    return list(found.values())


def _payloads(file: pte.ProgramFile) -> Iterator[Datum]:
    segment = schema.program_class("DataLocation").SEGMENT
    inline = file.program.backendDelegateData or []
    for plan in file.program.executionPlan:
        method = tables.text(plan.name)
        for number, delegate in enumerate(plan.delegates or []):
            backend, place = tables.text(delegate.id), delegate.processed
            if place is None:
                continue
            if place.location == segment:
                piece = file.piece(place.index)
            elif place.index < len(inline):
                data = inline[place.index].data
                piece = Piece.of(b"" if data is None else bytes(data))
            else:
                continue
            name = f"method {method!r}, {backend} {number}"
            yield Datum(
                f"{name}: its payload", PAYLOAD, name, piece, backend=backend, method=method
            )


def _constants(file: pte.ProgramFile) -> Iterator[Datum]:
    segment = file.program.constantSegment
    if segment is None or segment.segmentIndex >= len(file.segments):
        return
    start, size = file.segments[segment.segmentIndex]
    offsets = [int(n) for n in segment.offsets] if segment.offsets is not None else []
    begins = sorted({*offsets, size})
    users = _users(file.program)
    for number, begin in enumerate(offsets):
        after = bisect.bisect_right(begins, begin)
        if not number or after == len(begins) or begins[after] > size:
            continue
        piece = Piece(begins[after] - begin, file.path, start + begin)
        if number not in users:
            yield Datum(f"constant {number}", CONSTANT, f"constant {number}", piece)
            continue
        method, value, tensor = users[number]
        dtype, shape = _described(tensor)
        info = tensor.extraTensorInfo
        title = f"constant {number} ({dtype} {list(shape)}, value {value} of the method {method!r})"
        name = tables.text(info.fullyQualifiedName) if info is not None else ""
        name = name or f"constant {number}"
        yield Datum(title, CONSTANT, name, piece, dtype, shape, method=method)


def _users(program: Any) -> dict[int, tuple[str, int, Any]]:
    """Method, value and tensor that use a constant first, by the constant's number."""
    found: dict[int, tuple[str, int, Any]] = {}
    for plan, value, tensor in tables.tensors(program):
        if tables.is_constant(tensor):
            method = tables.text(program.executionPlan[plan].name)
            found.setdefault(tensor.dataBufferIdx, (method, value, tensor))
    return found


def _described(tensor: Any) -> tuple[str, tuple[int, ...]]:
    kind = int(tensor.scalarType)
    sizes = () if tensor.sizes is None else tuple(int(n) for n in tensor.sizes)
    return tables.SCALAR_TYPES.get(kind, (f"type {kind}", 0))[0], sizes
