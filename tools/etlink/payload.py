"""Payloads of the XNNPACK delegate: which constants they load by key, and how they are packed.

To the rest of the linker a payload is bytes. Only here is it read (`read`) and changed (`rename`),
for two purposes: its constants give named data a type and a name instead of a hash, and its nodes
tell how XNNPACK packs a weight, on which its weight cache depends (`weight_cache.py`).

Source: upstream's backends/xnnpack/serialization/schema.fbs and xnnpack_graph_serialize.py. A
payload is a header, a flatbuffer and constants. There is no generated Python code for the schema,
so fields are read by their number; a new version of upstream's may add fields but not renumber
them. A payload of another backend or of an unknown form is left alone, and the linker then treats
its data as opaque. `rename` keeps every offset that it does not need to change: new keys are
appended to the flatbuffer, old ones are overwritten with zeros, so that no hash of an adapter's
weight is left in the program.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flatbuffers import number_types as numbers

from etlink.flatbuffer import (
    Buffer,
    Table,
    field_table,
    field_tables,
    number,
    numbers_of,
    offset_of,
    text_of,
)

BACKEND = "XnnpackBackend"
MAGIC = b"XH00"
# Padding, magic, length; then flatbuffer offset and size, constant data offset and size.
_HEADER = struct.Struct("<4s4sHIIIQ")
_ALIGNMENT = 16
_NO_VALUE = 0xFFFFFFFF

_DATATYPES = {
    1: "float32",
    2: "float16",
    3: "qint8",
    4: "quint8",
    5: "qint32",
    6: "qcint8",
    7: "qcint32",
    8: "qcint4",
    9: "qdint8",
    10: "qbint4",
    11: "qpint8",
    12: "int32",
    13: "pfp32",
    14: "bfloat16",
}
# Numbers in the unions XNodeUnion, XValueUnion and XNNQuantParams.
_FULLY_CONNECTED = 2
_BINARY = {31: "PReLU", 37: "batch matrix multiply"}
_CONVOLUTIONS = {7: "convolution", 13: "depthwise convolution", 39: "transposed convolution"}
_QUANTIZED = 2
# Field of XNNGraph; deprecated fields count, too.
_CONSTANT_DATA = 8
_PER_CHANNEL, _PER_TENSOR, _PER_TOKEN, _PER_GROUP = 1, 2, 3, 4


@dataclass(frozen=True)
class PayloadConstant:
    """One constant of a payload.

    Attributes:
      key: named data key; empty: its bytes lie in the payload.
      dtype: XNNPACK's name of the element type: "float32", "qcint4", …; of a scale "scale".
      shape: elements per dimension.
    """

    key: str
    dtype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, order=True)
class Packing:
    """A weight that XNNPACK packs into the form that its kernels read.

    XNNPACK's weight cache finds a packed weight by the two keys alone, so two packings of the same
    keys must have the same recipe, or the second gets the first one's numbers
    (runtime/XNNWeightsCache.cpp).

    Attributes:
      weight: named data key.
      bias: named data key; empty: none.
      recipe: everything else that the packed bytes depend on, as JSON.
    """

    weight: str
    bias: str
    recipe: str


@dataclass(frozen=True)
class Payload:
    """What a payload says.

    Attributes:
      constants: in its order; the first is a placeholder.
      packings: in the order of its nodes.
    """

    constants: tuple[PayloadConstant, ...] = ()
    packings: tuple[Packing, ...] = field(default=())


def read(data: bytes) -> Payload | None:
    """Reads a payload.

    Returns:
      What it says; None: it is not a payload of XNNPACK, or of an unknown version.
    """
    if len(data) < _HEADER.size or data[4:8] != MAGIC:
        return None
    start, size = _HEADER.unpack_from(data)[3:5]
    try:
        return _read(data[start : start + size])
    except Exception:  # Numbers out of range raise whatever they lead to.
        return None


def _read(flatbuffer: bytes) -> Payload:
    buffer = Buffer(flatbuffer)
    graph = Table(buffer, Table(buffer, 0).Indirect(0))
    keys = [text_of(c, 2) for c in field_tables(graph, _CONSTANT_DATA)]
    described: dict[int, PayloadConstant] = {}
    values: dict[int, _Value] = {}
    for table in field_tables(graph, 2):
        value = _value(table)
        values[value.id] = value
        if value.buffer:
            described[value.buffer] = PayloadConstant(keys[value.buffer], value.dtype, value.shape)
        if value.scale:
            described[value.scale] = PayloadConstant(keys[value.scale], "scale", (value.scales,))
    constants = tuple(described.get(n, PayloadConstant(k)) for n, k in enumerate(keys))
    packings = (_packing(node, values, keys) for node in field_tables(graph, 1))
    return Payload(constants, tuple(p for p in packings if p and p.weight))


def kinds(data: bytes) -> tuple[frozenset[int], frozenset[int]]:
    """The kinds of nodes and of element types in a payload, by their numbers in upstream's schema.

    Returns:
      Numbers of XNodeUnion and of XNNDatatype; both empty: it is not a payload of XNNPACK.
    """
    if len(data) < _HEADER.size or data[4:8] != MAGIC:
        return frozenset(), frozenset()
    start, size = _HEADER.unpack_from(data)[3:5]
    try:
        buffer = Buffer(data[start : start + size])
        graph = Table(buffer, Table(buffer, 0).Indirect(0))
        nodes = [number(node, 0, numbers.Uint8Flags) for node in field_tables(graph, 1)]
        datatypes = [number(_tensor(v), 0, numbers.Int16Flags) for v in field_tables(graph, 2)]
    except Exception:  # Numbers out of range raise whatever they lead to.
        return frozenset(), frozenset()
    return frozenset(nodes), frozenset(datatypes)


def _tensor(value: Table) -> Table:
    inner = field_table(value, 1)
    is_quantized = number(value, 0, numbers.Uint8Flags) == _QUANTIZED
    return field_table(inner, 0) if is_quantized else inner


@dataclass(frozen=True)
class _Value:
    id: int
    dtype: str
    shape: tuple[int, ...]
    buffer: int
    quantization: tuple[Any, ...] = ()
    scale: int = 0
    scales: int = 0


def _value(table: Table) -> _Value:
    inner = field_table(table, 1)
    quantized = number(table, 0, numbers.Uint8Flags) == _QUANTIZED
    tensor = _tensor(table)
    datatype = number(tensor, 0, numbers.Int16Flags)
    return _Value(
        id=number(tensor, 6, numbers.Uint32Flags),
        dtype=_DATATYPES.get(datatype, f"datatype {datatype}"),
        shape=numbers_of(tensor, 2, numbers.Uint32Flags, 4),
        buffer=number(tensor, 3, numbers.Uint32Flags),
        **(_quantization(inner) if quantized else {}),
    )


def _quantization(value: Table) -> dict[str, Any]:
    kind = number(value, 1, numbers.Uint8Flags)
    params = field_table(value, 2)
    if kind == _PER_TENSOR:
        scale = number(params, 0, numbers.Float32Flags)
        return {"quantization": (scale, number(params, 1, numbers.Int32Flags))}
    if kind == _PER_CHANNEL:
        axis, scale, count = (number(params, n, numbers.Uint32Flags) for n in (1, 2, 3))
        return {"quantization": ("axis", axis), "scale": scale, "scales": count}
    if kind == _PER_GROUP:
        axis, group = (number(params, n, numbers.Int32Flags) for n in (1, 2))
        scale, count = (number(params, n, numbers.Uint32Flags) for n in (4, 5))
        return {"quantization": ("groups", axis, group), "scale": scale, "scales": count}
    if kind == _PER_TOKEN:
        return {"quantization": ("token",)}
    return {"quantization": ("kind", kind)}


def _packing(node: Table, values: Mapping[int, _Value], keys: list[str]) -> Packing | None:
    kind = number(node, 0, numbers.Uint8Flags)
    inner = field_table(node, 1)
    if kind == _FULLY_CONNECTED:
        name, first, shape = "fully connected", 0, ()
    elif kind in _CONVOLUTIONS:
        # Kernel height and width, input and output channels of a group, groups.
        fields = (4, 5, 10, 11, 12)
        name, first = _CONVOLUTIONS[kind], 15
        shape = tuple(number(inner, n, numbers.Uint32Flags) for n in fields)
    elif kind in _BINARY:
        name, first, shape = _BINARY[kind], 0, ()
    else:
        return None
    ids = [number(inner, first + n, numbers.Uint32Flags) for n in range(4)]
    if kind in _BINARY:
        ids[2:] = [_NO_VALUE, ids[2]]
    source, weight, bias, output = (values.get(i) for i in ids)
    if weight is None or not weight.buffer:
        return None
    has_bias = bias is not None and ids[2] != _NO_VALUE and bias.buffer
    recipe: dict[str, Any] = {
        "node": name,
        "shape": shape,
        "flags": number(inner, first + (3 if kind in _BINARY else 4), numbers.Uint32Flags),
        "weight": _packed(weight, keys),
    }
    if has_bias:
        recipe["bias"] = _packed(bias, keys)
    if source is not None and source.quantization and source.dtype != "qdint8":
        # Static quantization folds zero points and scales of both ends into the packed weight.
        recipe["input"] = (source.dtype, source.quantization)
        recipe["output"] = (output.dtype, output.quantization) if output else ()
    elif source is not None:
        recipe["input"] = (source.dtype,)
    text = json.dumps(recipe, sort_keys=True)
    return Packing(keys[weight.buffer], keys[bias.buffer] if has_bias else "", text)


def is_static(packings: Iterable[Packing]) -> bool:
    """Whether some weights are packed with scales of activations that calibration computed."""
    return any("output" in json.loads(packing.recipe) for packing in packings)


def _packed(value: _Value, keys: list[str]) -> tuple[Any, ...]:
    scale = keys[value.scale] if value.scale else ""
    return (value.dtype, value.shape, value.quantization, scale)


def rename(data: bytes, keys: Mapping[int, str]) -> bytes:
    """Gives constants of a payload other keys.

    Args:
      data: the payload.
      keys: number of the constant to its new key.

    Returns:
      A payload of the same meaning, without the old keys.
    """
    header = list(_HEADER.unpack_from(data))
    start, size, constants = header[3], header[4], header[5]
    flatbuffer = bytearray(data[start : start + size])
    graph = Table(flatbuffer, struct.unpack_from("<I", flatbuffer)[0])
    tables = field_tables(graph, _CONSTANT_DATA)
    references = {n: t.Pos + offset_of(t, 2) for n, t in enumerate(tables) if offset_of(t, 2)}
    strings = {n: at + struct.unpack_from("<I", flatbuffer, at)[0] for n, at in references.items()}
    in_use = {offset for n, offset in strings.items() if n not in keys}
    for constant, key in sorted(keys.items()):
        old = strings[constant]
        if old not in in_use:
            length = struct.unpack_from("<I", flatbuffer, old)[0]
            flatbuffer[old : old + 4 + length] = bytes(4 + length)
            in_use.add(old)
        flatbuffer += bytes(-len(flatbuffer) % 4)
        at = references[constant]
        struct.pack_into("<I", flatbuffer, at, len(flatbuffer) - at)
        encoded = key.encode()
        flatbuffer += struct.pack("<I", len(encoded)) + encoded + b"\0"
    header[4] = len(flatbuffer)
    flatbuffer += bytes(-len(flatbuffer) % _ALIGNMENT)
    header[5] = start + len(flatbuffer)
    head = _HEADER.pack(*header) + data[_HEADER.size : start]
    return head + bytes(flatbuffer) + data[constants:]
