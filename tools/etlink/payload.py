"""Reads payloads of the XNNPACK delegate: constants that they load by key, and their packing.

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

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatbuffers import number_types as numbers

from etlink.flatbuffer import (
    Buffer,
    DamagedError,
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
_FULLY_CONNECTED, _STATIC_PAD, _MATRIX_MULTIPLY = 2, 10, 37
# The kinds of nodes of which it is known what they pack: those of the schema up to 1.5.1.
NODES = 47
_CONVOLUTIONS = {7: "convolution", 13: "depthwise convolution", 39: "transposed convolution"}
_QUANTIZED = 2
# Field of XNNGraph; deprecated fields count, too.
_CONSTANT_DATA = 8
_PER_CHANNEL, _PER_TENSOR, _PER_TOKEN, _PER_GROUP = 1, 2, 3, 4

# Where XNNPACK's cache key has the bias, by types of input and weight: in each version from 1.3.0
# to 1.5.1, and on each processor. Elsewhere it is NULL (dynamic quantization packs the bias as a
# scale) or the address of a converted copy (float16), and the weight's key alone is the name
# (xnn_create_* of operators/*-nc.c and *-nhwc.c).
_BIAS_IN_KEY = {
    *((node, *types) for node in ("fully connected", *_CONVOLUTIONS.values())
      for types in (("float32", "float32"), ("qint8", "qcint8"), ("qint8", "qint8"))),
    ("fully connected", "qdint8", "qbint4"),
}  # fmt: skip


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

    XNNPACK's weight cache finds a packed weight by its name alone, which is the key of the weight,
    for some operators followed by that of the bias. So two packings of one name must have the same
    recipe, or the second gets the first one's numbers (runtime/XNNWeightsCache.cpp).

    Attributes:
      weight: named data key.
      bias: named data key, if it is part of the name; empty: it is not, or there is none.
      recipe: everything that the packed bytes depend on besides the weight's, as JSON.
    """

    weight: str
    bias: str
    recipe: str


@dataclass(frozen=True)
class Payload:
    """The contents of a payload.

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
        return _read(data, start, size)
    except Exception:  # Numbers out of range raise whatever they lead to.
        return None


def _read(data: bytes, start: int, size: int) -> Payload:
    buffer = Buffer(data[start : start + size])
    graph = Table(buffer, Table(buffer, 0).Indirect(0))
    tables = field_tables(graph, _CONSTANT_DATA)
    keys = [text_of(c, 2) for c in tables]
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
    names = _names_of(tables, keys, data[_HEADER.unpack_from(data)[5] :])
    nodes = [node for table in field_tables(graph, 1) if (node := _node(table, values))]
    packings = (_packing(n, nodes, values, keys, names, data) for n in nodes if n.weight)
    return Payload(constants, tuple(p for p in packings if p.weight))


def _names_of(constants: Sequence[Table], keys: Sequence[str], inline: bytes) -> list[str]:
    """Returns names of constants' bytes: their keys, or hashes of those in the payload."""
    pieces = [
        tuple(0 if key else number(constant, n, numbers.Uint64Flags) for n in (0, 1))
        for key, constant in zip(keys, constants, strict=True)
    ]
    if sum(size for _, size in pieces) > len(inline):
        raise DamagedError("its constants overlap")
    return [
        key or hashlib.sha256(inline[at : at + size]).hexdigest()
        for key, (at, size) in zip(keys, pieces, strict=True)
    ]


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
        quantization = ("axis", axis, *_inline_scales(params))
        return {"quantization": quantization, "scale": scale, "scales": count}
    if kind == _PER_GROUP:
        axis, group = (number(params, n, numbers.Int32Flags) for n in (1, 2))
        scale, count = (number(params, n, numbers.Uint32Flags) for n in (4, 5))
        quantization = ("groups", axis, group, *_inline_scales(params))
        return {"quantization": quantization, "scale": scale, "scales": count}
    if kind == _PER_TOKEN:
        return {"quantization": ("token",)}
    return {"quantization": ("kind", kind)}


@dataclass(frozen=True)
class _Node:
    """A node that may pack a weight, or a padding.

    Attributes:
      name: its kind.
      source: what it reads besides the weight.
      weight: None: it packs none.
      bias: None: it has none.
      output: what it writes.
      recipe: what its own fields say of the packed bytes.
    """

    name: str
    source: _Value | None
    weight: _Value | None
    bias: _Value | None
    output: _Value | None
    recipe: Mapping[str, Any]


def _node(node: Table, values: Mapping[int, _Value]) -> _Node | None:
    kind = number(node, 0, numbers.Uint8Flags)
    inner = field_table(node, 1)
    if kind > NODES:
        raise DamagedError(f"its node of kind {kind} is unknown")

    def field_of(n: int) -> int:
        return number(inner, n, numbers.Uint32Flags)

    def value(n: int) -> _Value | None:
        return values.get(field_of(n))

    def made(name: str, first: int, *, bias: bool = True, **recipe: Any) -> _Node:
        weight = value(first + 1)
        weight = weight if weight and weight.buffer else None
        end = first + 2 + bias
        recipe["flags"] = field_of(end + 1)
        return _Node(
            name, value(first), weight, value(first + 2) if bias else None, value(end), recipe
        )

    if kind == _FULLY_CONNECTED:
        return made("fully connected", 0)
    if kind == _MATRIX_MULTIPLY:
        return made("batch matrix multiply", 0, bias=False)
    if kind in _CONVOLUTIONS:
        # Kernel height and width, input and output channels of a group, groups.
        shape = tuple(field_of(n) for n in (4, 5, 10, 11, 12))
        return made(_CONVOLUTIONS[kind], 15, shape=shape, geometry=_geometry(kind, shape, field_of))
    if kind == _STATIC_PAD:
        return _Node("padding", value(3), None, None, value(4), {})
    return None


def _geometry(kind: int, shape: tuple[int, ...], field_of: Callable[[int], int]) -> tuple[int, ...]:
    """Returns what else chooses the kernel of a convolution, and with it the packed form."""
    height, width, inputs, outputs, _ = shape
    if _CONVOLUTIONS[kind] == "transposed convolution":
        fields = range(6, 10)  # Strides and dilations.
    elif height == width == inputs == outputs == 1:
        fields = range(8)  # Padding and strides, beside the kernel.
    else:
        fields = range(0)
    return tuple(field_of(n) for n in fields)


def _inline_scales(params: Table) -> tuple[int, ...]:
    """The bits of scales that are no constants."""
    return numbers_of(params, 0, numbers.Uint32Flags, 4)


def _packing(
    node: _Node,
    nodes: Sequence[_Node],
    values: Mapping[int, _Value],
    keys: Sequence[str],
    names: Sequence[str],
    data: bytes,
) -> Packing:
    """Returns how a node packs its weight.

    Args:
      node: it.
      nodes: of the payload.
      values: of the payload.
      keys: of its constants; empty: the constant lies in the payload.
      names: of its constants: keys, or what stands for the bytes.
      data: the payload.
    """
    source, weight, bias, output = node.source, node.weight, node.bias, node.output
    assert weight
    recipe: dict[str, Any] = {
        "node": node.name,
        **node.recipe,
        "weight": _packed(weight, names),
        "bias": (names[bias.buffer], *_packed(bias, names)) if bias and bias.buffer else (),
        # Static quantization folds zero points and scales of both ends into the packed weight.
        "input": _quantized(source),
        "output": _quantized(output),
    }
    is_dynamic = source is not None and source.dtype == "qdint8"
    if is_dynamic and node.name != "fully connected":
        # Whether a convolution reads signed or unsigned integers depends on all that read them.
        readers = {
            (n.name, n.weight.dtype if n.weight else "") for n in nodes if n.source is source
        }
        recipe["readers"] = sorted(readers)
    pads = any(n.name == "padding" and n.output is source for n in nodes)
    if node.name == "batch matrix multiply" or (node.recipe.get("geometry") and pads):
        # XNNPACK may first rewrite the graph around them.
        recipe["payload"] = hashlib.sha256(data).hexdigest()
    types = (source.dtype if source else "", weight.dtype)
    in_key = bool(recipe["bias"]) and (node.name, *types) in _BIAS_IN_KEY
    text = json.dumps(recipe, sort_keys=True)
    return Packing(keys[weight.buffer], keys[bias.buffer] if in_key and bias else "", text)


def _quantized(value: _Value | None) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value.dtype, value.quantization) if value.quantization else (value.dtype,)


def is_static(packings: Iterable[Packing]) -> bool:
    """Tells whether some weights are packed with activations' scales that calibration computed."""
    return any(len(json.loads(p.recipe).get("output", ())) > 1 for p in packings)


def _packed(value: _Value, names: Sequence[str]) -> tuple[Any, ...]:
    scale = names[value.scale] if value.scale else ""
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
