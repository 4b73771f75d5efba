"""The data of a program file, and the keys of data that it loads from elsewhere."""

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
      title: its name in messages.
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
class Key:
    """A key that a program loads data by.

    Attributes:
      key: the key.
      method: the one that needs it.
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
    keys = {key.key: key for key in keys_of(file)}
    data = [*_constants(file), *_payloads(file)]
    for named in file.program.namedData or []:
        name = tables.text(named.key)
        user = keys.get(name, Key(name, ""))
        piece = file.piece(named.segmentIndex)
        user_fields = (user.dtype, user.shape, user.backend, user.method)
        data.append(Datum(f"data {name!r}", NAMED, name, piece, *user_fields))
    for number, state in enumerate(file.program.mutableDataSegments or []):
        title = f"initial state {number}"
        data.append(Datum(title, MUTABLE, title, file.piece(state.segmentIndex)))
    return data


def keys_of(file: pte.ProgramFile) -> list[Key]:
    """Keys that a program loads data by, each once: portable tensors' and XNNPACK's.

    Other backends keep their keys in payloads that only they can read.
    """
    keys: dict[str, Key] = {}
    for plan, _, tensor in tables.tensors(file.program):
        if tables.is_external(tensor):
            key = tables.text(tensor.extraTensorInfo.fullyQualifiedName)
            method = tables.text(file.program.executionPlan[plan].name)
            keys.setdefault(key, Key(key, method, "", *_described(tensor)))
    for datum in _payloads(file):
        if datum.backend != _XNNPACK:
            continue
        read = payload.read(b"".join(chunks(datum.piece)))
        for constant in read.constants if read else ():
            if constant.key:
                user = (datum.method, datum.backend, constant.dtype, constant.shape)
                keys.setdefault(constant.key, Key(constant.key, *user))
    return list(keys.values())


def _payloads(file: pte.ProgramFile) -> Iterator[Datum]:
    segment = schema.program_class("DataLocation").SEGMENT
    inline = file.program.backendDelegateData or []
    for plan in file.program.executionPlan:
        method = tables.text(plan.name)
        for number, delegate in enumerate(plan.delegates or []):
            backend, processed = tables.text(delegate.id), delegate.processed
            if processed is None:
                continue
            if processed.location == segment:
                piece = file.piece(processed.index)
            elif processed.index < len(inline):
                data = inline[processed.index].data
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
    users: dict[int, tuple[str, int, Any]] = {}
    for plan, value, tensor in tables.tensors(program):
        if tables.is_constant(tensor):
            method = tables.text(program.executionPlan[plan].name)
            users.setdefault(tensor.dataBufferIdx, (method, value, tensor))
    return users


def _described(tensor: Any) -> tuple[str, tuple[int, ...]]:
    kind = int(tensor.scalarType)
    sizes = () if tensor.sizes is None else tuple(int(n) for n in tensor.sizes)
    return tables.SCALAR_TYPES.get(kind, (f"type {kind}", 0))[0], sizes
