"""Files for the runner that are hostile by construction: well-formed, and senseless or gigantic.

`cases()` are the known ones, each with what the runner has to say of it. `generated()` makes others
of the same kinds: numbers, names and references are chosen so that exactly one of them is wrong.
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np

_MIB = 1 << 20
# Names that are no plain names of files, on one system or another.
BAD_NAMES = (
    "",
    ".",
    "..",
    "../../escaped",
    "/escaped",
    "a/../../escaped",
    "a//b",
    "a/./b",
    "a/",
    "..\\escaped",
    "a\\b",
    "a\0b",
    "a\nb",
)
_LIMITS = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class Case:
    """A hostile file.

    Attributes:
      name: what is wrong with it.
      kind: "bundled", "data", "manifest", "npy", "payload" or "safetensors".
      data: its bytes.
      expected: a part of what the runner says of it.
    """

    name: str
    kind: str
    data: bytes
    expected: str


def cases() -> list[Case]:
    """All known cases, with names that differ."""
    return [
        *_bundles(),
        *_safetensors(),
        *_npy(),
        *_data_files(),
        *_manifests(),
    ]


# Flatbuffers


def _vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    builder.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        builder.PrependInt32(number)
    return builder.EndVector()


def _table(
    builder: flatbuffers.Builder, count: int, offsets: dict[int, int], **scalars: Any
) -> int:
    """A table of `count` fields: offsets by field, and `byte_N=` or `long_N=` for field N."""
    builder.StartObject(count)
    for field, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    for name, value in scalars.items():
        kind, _, field_text = name.partition("_")
        prepend = {
            "byte": builder.PrependUint8Slot,
            "int": builder.PrependUint32Slot,
            "long": builder.PrependUint64Slot,
        }[kind]
        prepend(int(field_text), value, -1 if kind == "signed" else 0)
    return builder.EndObject()


def _finished(builder: flatbuffers.Builder, root: int, magic: bytes) -> bytes:
    builder.Finish(root, file_identifier=magic)
    return bytes(builder.Output())


def bundle(
    method: str,
    values: Callable[[flatbuffers.Builder], Sequence[int]] | None = None,
    count: int = 1,
) -> bytes:
    """A .bpte file whose one method has the same test case `count` times.

    Args:
      method: its name.
      values: adds the case's inputs.
      count: how many references to the case there are.
    """
    builder = flatbuffers.Builder(_MIB)
    inputs = _vector(builder, values(builder) if values else [])
    case = _table(builder, 2, {0: inputs})
    references = _vector(builder, [case] * count)
    suite = _table(builder, 2, {0: builder.CreateString(method), 1: references})
    program = builder.CreateByteVector(b"no program")
    root = _table(builder, 3, {1: _vector(builder, [suite]), 2: program}, int_0=1)
    return _finished(builder, root, b"BP08")


def _tensor(builder: flatbuffers.Builder, sizes: Sequence[int], data: bytes) -> int:
    """A bundle's value: a tensor of bytes."""
    fields = {1: _numbers(builder, sizes), 2: builder.CreateByteVector(data)}
    tensor = _table(builder, 4, fields)
    return _table(builder, 2, {1: tensor}, byte_0=1)


def _bundles() -> Iterator[Case]:
    # 2.4 GB, with a copy of the name for each case.
    name = "m" * 100_000
    yield Case("bundle_long_method_name", "bundled", bundle(name, None, 9_000), "not an ExecuTorch")
    yield Case(
        "bundle_many_cases",
        "bundled",
        bundle("m", None, 50_000),
        "test cases that are expected at most",
    )
    yield Case(
        "bundle_many_dimensions",
        "bundled",
        bundle("m", lambda b: [_tensor(b, [1] * 50_000, b"x")]),
        "has 50000 dimensions, expected at most 16",
    )
    yield Case(
        "bundle_one_tensor_many_times",
        "bundled",
        bundle("m", lambda b: [_tensor(b, [_MIB], bytes(_MIB))] * 20_000),
        "overlap",
    )
    yield Case(
        "bundle_huge_shape",
        "bundled",
        bundle("m", lambda b: [_tensor(b, [2**31 - 1] * 3, b"x")]),
        "a tensor's shape does not fit its data",
    )
    yield Case(
        "bundle_negative_shape",
        "bundled",
        bundle("m", lambda b: [_tensor(b, [-1, -1], b"x")]),
        "a tensor's shape does not fit its data",
    )


# Safetensors


def safetensors(header: str | bytes, data: bytes = b"") -> bytes:
    """A .safetensors file of a header as it is."""
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text)) + text + data


def _entry(start: int, end: int, shape: Sequence[int] | None = None, dtype: str = "U8") -> str:
    sizes = [end - start] if shape is None else list(shape)
    return json.dumps({"dtype": dtype, "shape": sizes, "data_offsets": [start, end]})


def _header(*entries: tuple[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{entry}" for name, entry in entries) + "}"


def _safetensors() -> Iterator[Case]:
    def case(name: str, header: str, expected: str, data: bytes = b"") -> Case:
        return Case(f"safetensors_{name}", "safetensors", safetensors(header, data), expected)

    # 63 seconds, where each name is compared with all before it.
    many = _header(*((f"tensor_{number}", _entry(0, 0)) for number in range(60_000)))
    yield case("many_names", many, 'has no tensor "input_0"')
    twice = _header(("input_0", _entry(0, 4)), ("input_0", _entry(4, 8)))
    yield case("name_twice", twice, 'it has the key "input_0" twice', bytes(8))
    key_twice = '{"input_0":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"dtype":"I8"}}'
    yield case("key_twice", key_twice, 'it has the key "dtype" twice', b"x")
    over = _header(*((f"input_{n}", _entry(0, 8)) for n in range(3)))
    yield case("one_place", over, "data overlap", bytes(8))
    yield case(
        "many_dimensions",
        _header(("input_0", _entry(0, 1, [1] * 500_000))),
        "at most 16 dimensions",
        b"x",
    )
    yield case(
        "huge_shape", _header(("input_0", _entry(0, 8, [2**62, 4]))), "of another size", bytes(8)
    )
    for number in (-1, 2**63, 2**64, 1.5, "0"):
        entry = f'{{"dtype":"U8","shape":[1],"data_offsets":[{json.dumps(number)},1]}}'
        expected = "which 64 bits do not hold" if number == 2**64 else "offsets of data"
        yield case(f"offset_{number}", _header(("input_0", entry)), expected, b"x")
    yield case("deep", '{"a":' + "[" * 500_000, "nested too deeply")
    yield case("many_values", '{"a":[' + "0," * 11_000_000 + "0]}", "it has too many values")
    yield case("list", "[]", "it is not a JSON object")
    yield case("outside", _header(("input_0", _entry(0, 9))), "data outside of the file", b"x")
    yield Case(
        "safetensors_long_header",
        "safetensors",
        struct.pack("<Q", 2**64 - 1) + b"{}",
        "does not start with the size of its header",
    )


# NumPy


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """A .npy file of a header as it is."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("latin-1") + data


def _npy_header(shape: str, descr: str = "'<f4'", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def _npy() -> Iterator[Case]:
    ones = "(" + "1," * 5_000_000 + ")"
    yield Case(
        "npy_many_dimensions",
        "npy",
        npy(_npy_header(ones), bytes(4), 2),
        "dimensions, expected at most 16",
    )
    yield Case("npy_huge_size", "npy", npy(_npy_header("(99999999999999999999,)")), "is too big")
    yield Case("npy_huge_shape", "npy", npy(_npy_header(f"({'2147483647,' * 3})")), "expected more")
    yield Case("npy_spaces", "npy", npy("{" + " " * 20_000_000, b"", 2), 'has no "descr"')
    yield Case("npy_object", "npy", npy(_npy_header("(1,)", "'|O'"), bytes(8)), "expected one of")
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 2), np.float32))
    yield Case("npy_truncated", "npy", buffer.getvalue()[:-1], "expected 16")
    length = b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1)
    yield Case("npy_long_header", "npy", length + b"{}", "it is truncated")


# Data files


def data_file(
    entries: Sequence[tuple[str, int]], segments: Sequence[tuple[int, int]], data: bytes
) -> bytes:
    """A .ptd file.

    Args:
      entries: key and index of its segment.
      segments: offset and size of each.
      data: what follows the tables.
    """
    builder = flatbuffers.Builder(_MIB)
    segment_tables = [_table(builder, 2, {}, long_0=at, long_1=size) for at, size in segments]
    tables = [_table(builder, 3, {0: builder.CreateString(k)}, int_1=i) for k, i in entries]
    fields = {1: _vector(builder, segment_tables), 2: _vector(builder, tables)}
    body = _finished(builder, _table(builder, 3, fields), b"FT01")
    # The header stands between the identifier and the tables, whose root is the first offset.
    size = 40
    (root,) = struct.unpack_from("<I", body)
    body = struct.pack("<I", root + size) + body[4:8] + bytes(size) + body[8:]
    head = b"FH01" + struct.pack("<IQQQQ", size, 0, len(body), len(body), len(data))
    return body[:8] + head + body[8 + size :] + data


def _data_files() -> Iterator[Case]:
    some = bytes(4 * _MIB)
    # Each hashed on its own: 50,000 times 4 MiB.
    nested = [(n, len(some) - n) for n in range(50_000)]
    keys = [(f"key{n}", n) for n in range(len(nested))]
    yield Case("data_nested_segments", "data", data_file(keys, nested, some), "overlap")
    yield Case(
        "data_key_twice",
        "data",
        data_file([("key", 0)] * 50_000, [(0, 4)], bytes(4)),
        'it has key "key" twice',
    )
    yield Case(
        "data_segment_outside", "data", data_file([("k", 0)], [(0, 5)], bytes(4)), "ends after the"
    )
    yield Case(
        "data_no_such_segment", "data", data_file([("k", 7)], [(0, 4)], bytes(4)), "does not exist"
    )
    yield Case(
        "data_offset_wraps",
        "data",
        data_file([("k", 0)], [(2**64 - 2, 4)], bytes(4)),
        "ends after the file",
    )


# Payloads of XNNPACK


def payload(keys: Sequence[str], start: int = 32, size: int = -1, repeat: int = 1) -> bytes:
    """A payload with constants.

    Args:
      keys: of the constants; "": it lies in the payload.
      start: of the tables, as the header says.
      size: of the tables, as the header says; -1: their own.
      repeat: how many references to each constant there are.
    """
    builder = flatbuffers.Builder(_MIB)
    texts = [builder.CreateString(key) if key else 0 for key in keys]
    constants = [_table(builder, 3, {2: text} if text else {}, long_0=1) for text in texts]
    graph = _table(builder, 9, {8: _vector(builder, constants * repeat)})
    tables = _finished(builder, graph, b"XN01")
    lengths = (start, len(tables) if size < 0 else size, 32 + len(tables), 0)
    return struct.pack("<4s4sHIIIQ2x", b"", b"XH00", 30, *lengths) + tables


def payloads() -> Iterator[Case]:
    """Known cases that are no files: a program's segments."""
    good = payload(["", "a.weight", "b"])
    yield Case("payload_good", "payload", good, "good")
    yield Case("payload_truncated", "payload", good[:-40], "is damaged")
    yield Case("payload_head", "payload", good[:29], "is damaged")
    yield Case("payload_magic", "payload", good.replace(b"XH00", b"XH99"), "is damaged")
    for number in (2**31, 2**32 - 1):
        yield Case(f"payload_start_{number}", "payload", payload(["b"], start=number), "is damaged")
        yield Case(f"payload_size_{number}", "payload", payload(["b"], size=number), "is damaged")
    yield Case("payload_repeated", "payload", payload(["b"], repeat=100_000), "is damaged")
    at = good.index(b"a.weight") - 4
    for number in (9, 2**31, 2**32 - 1):
        data = good[:at] + struct.pack("<I", number) + good[at + 4 :]
        yield Case(f"payload_key_{number}", "payload", data, "is damaged")


# Manifests


def manifest(**change: Any) -> dict[str, Any]:
    """A program's manifest; tests/manifest has malformed ones for both readers."""
    program = {"label": "//example:program", "file": "program.pte", "data": ["a.ptd"]}
    return {
        "format": 1,
        "label": "//example:program",
        "files": {"program.pte": {"size": 1}, "a.ptd": _data_file()},
        "programs": {"program": {**program, "weight_cache": {}}},
        **change,
    }


def _data_file(**change: Any) -> dict[str, Any]:
    return {"label": "//a:b", "size": 1, "keys": [_key("k")], **change}


def _key(key: str, **change: Any) -> dict[str, Any]:
    return {"key": key, "sha256": "0" * 64, "size": 1, "crc32": 1, "by_name": True, **change}


def _manifests() -> Iterator[Case]:
    def case(name: str, value: Any, expected: str) -> Case:
        text = value if isinstance(value, str) else json.dumps(value)
        return Case(f"manifest_{name}", "manifest", text.encode(), expected)

    below = "expected a path below its own folder"
    for number, name in enumerate(BAD_NAMES):
        yield case(f"file_{number}", manifest(files={name: {"size": 1}}), below)
        yield case(f"library_{number}", manifest(libraries=[name]), below)
    text = json.dumps(manifest())
    yield case("key_twice", '{"label":"x",' + text[1:], 'it has the key "label" twice')
    yield case("deep", text[:-1] + ', "x":' + "[" * 200_000, "nested too deeply")
    good = manifest()
    keys = [_key(f"{number:064}") for number in range(100_000)]
    good["files"]["a.ptd"]["keys"] = keys
    yield case("many_keys", good, "is missing: it is part of the app")
    good["programs"] = {
        f"p{number}": {**good["programs"]["program"], "adapter": "a.ptd"} for number in range(1000)
    }
    yield case("many_keys_of_many_adapters", good, "is missing: it is part of the app")


# Others of these kinds


def generated(kind: str, generator: random.Random) -> bytes:
    """A file of a kind that is wrong, or right, in ways that nobody listed.

    Args:
      kind: as in `Case`.
      generator: of random numbers.
    """
    return _GENERATORS[kind](generator)


def _size(generator: random.Random) -> int:
    return generator.choice([*range(9), *_LIMITS])


def _sizes(generator: random.Random) -> list[int]:
    return [_size(generator) for _ in range(generator.choice([0, 1, 2, 3, 15, 16, 17, 1000]))]


def _name(generator: random.Random) -> str:
    return generator.choice([*BAD_NAMES, "input_0", "a", "é", "x" * 5000, "__metadata__"])


def _random_bundle(generator: random.Random) -> bytes:
    def values(builder: flatbuffers.Builder) -> Sequence[int]:
        tensors = [
            _tensor(
                builder,
                [min(size, 2**31 - 1) for size in _sizes(generator)],
                generator.randbytes(generator.choice([0, 1, 4, 64])),
            )
            for _ in range(generator.randrange(4))
        ]
        return tensors * generator.choice([1, 1, 2, 1000])

    return bundle(_name(generator), values, generator.choice([0, 1, 2, 1000]))


def _random_safetensors(generator: random.Random) -> bytes:
    entries = []
    for number in range(generator.choice([0, 1, 2, 100])):
        shape = generator.choice([None, _sizes(generator)])
        dtype = generator.choice(["U8", "F32", "F4", ""])
        entry = _entry(_size(generator), _size(generator), shape, dtype)
        entries.append((generator.choice([f"input_{number}", _name(generator)]), entry))
    return safetensors(_header(*entries), bytes(generator.choice([0, 1, 8, 64])))


def _random_npy(generator: random.Random) -> bytes:
    shape = generator.choice(["(", "[", ""]) + ", ".join(map(str, _sizes(generator))) + ",)"
    descr = generator.choice(["'<f4'", "'>f4'", "'", "", "'|b1'", "[('a', '<f4')]"])
    fortran = generator.choice(["False", "True", ""])
    version = generator.choice([1, 2, 3])
    return npy(_npy_header(shape, descr, fortran), bytes(generator.choice([0, 1, 8, 64])), version)


def _random_data_file(generator: random.Random) -> bytes:
    size = generator.choice([0, 1, 8, 64])
    segments = [
        (min(_size(generator), 2**64 - 1), min(_size(generator), 2**64 - 1))
        for _ in range(generator.choice([0, 1, 2, 100]))
    ]
    most = len(segments) + 1
    entries = [
        (generator.choice([f"k{number}", _name(generator)]), generator.randrange(most))
        for number in range(generator.choice([0, 1, 2, 100]))
    ]
    return data_file(entries, segments, bytes(size))


def _random_json(value: Any, generator: random.Random) -> bytes:
    """Changes one value."""
    positions: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        items = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for key, item in list(items):
            positions.append((inner, key))
            if isinstance(item, dict | list):
                walk(item)

    walk(value)
    owner, key = generator.choice(positions)
    other = [None, True, -1, 1.5, "", [], {}, [[]], _size(generator), _name(generator)]
    owner[key] = generator.choice(other)
    return json.dumps(value).encode()


def _random_manifest(generator: random.Random) -> bytes:
    keys = [_key(_name(generator), crc32=_size(generator)) for _ in range(3)]
    names = [_name(generator) for _ in range(2)]
    files = {"program.pte": {"size": 1, "sha256": ""}, "a.ptd": _data_file(keys=keys)}
    return _random_json(manifest(files=files, libraries=names, binary="c"), generator)


_GENERATORS: dict[str, Callable[[random.Random], bytes]] = {
    "bundled": _random_bundle,
    "data": _random_data_file,
    "manifest": _random_manifest,
    "npy": _random_npy,
    "safetensors": _random_safetensors,
}
KINDS = tuple(_GENERATORS)
