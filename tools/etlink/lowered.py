"""The lowered program: what lowering hands to linking, as a directory.

program.bin    the tables of the program (a flatbuffer), without segments and named data
index.json     what `Index` below holds
blobs/<sha256> the bytes of one constant, of one payload of a delegate, or of named data

Blobs are files named by their hash, so that caches hold a weight once, however many programs use
it. `split.py` writes the directory and `assemble.py` puts a program together from it. The invariant
is that assembling with nothing left out gives the bytes of the file that was split: the index keeps
its sha256 and `link.py` checks it on every link.

`data_of` is the other view of a lowered program: everything in it that can lie outside of the .pte,
the data of delegates and the constants of the model alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink.container import MAX_ALIGNMENT, Digest, Piece, copy_piece, digest_of
from etlink.json_file import FormError, check_hash, read_file, write_json
from etlink.named_data import Layout, NamedData, content_key
from etlink.payload import Packing
from etlink.tables import SCALAR_TYPES

FORMAT = 3

_SEGMENT_KINDS = ("constants", "mutable", "delegate")

_AGAIN = "Build it again with an empty cache (bazel clean). If that does not help, report it."


@dataclass(frozen=True)
class Constant:
    """A piece of the constant segment that tensors of the program refer to.

    Attributes:
      buffer: index in Program.constant_segment.offsets.
      sha256: of its bytes, hex.
      size: bytes, without the padding that follows.
      crc32: of its bytes.
    """

    buffer: int
    sha256: str
    size: int
    crc32: int


@dataclass(frozen=True)
class TensorName:
    """A constant tensor of the program, which can be loaded by a key.

    Attributes:
      plan: index of the method in Program.execution_plan.
      value: index in the plan's values.
      name: fully qualified name in the model; empty: a constant without a name of its own.
      by_name: whether programs may load it by that name; not where quantization made it from the
        weight of that name, because its bytes depend on the calibration.
      buffer: index of its constant.
      layout: element type and shape.
    """

    plan: int
    value: int
    name: str
    by_name: bool
    buffer: int
    layout: Layout


@dataclass(frozen=True)
class BaseSegment:
    """A segment that stays in the program, in upstream's order.

    Attributes:
      kind: "constants" (its bytes are those of `Index.constants`), "mutable" or "delegate".
      sha256: of its bytes, hex; empty for constants.
      size: bytes.
    """

    kind: str
    sha256: str
    size: int


@dataclass(frozen=True)
class PayloadNames:
    """The weights behind the constants of a delegate's payload.

    Attributes:
      sha256: of the payload, hex.
      names: qualified name by constant, in the payload's order; empty where there is none.
    """

    sha256: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Index:
    """The contents of a lowered program.

    Attributes:
      label: the target that was lowered.
      sha256: of the program that upstream's API would have written, hex: linking with everything
        embedded gives these bytes.
      size: bytes of it.
      frame: digest of that program's tables and of where its blobs lie.
      versions: of executorch, torch and Python.
      segment_alignment: bytes.
      tensor_alignment: of constants, bytes.
      delegate_alignment: of payloads in the tables, bytes.
      segments: those before the named data.
      constants: of the constant segment.
      tensors: weights by name.
      named_data: what delegates load by key, and what the recipe moved out; in upstream's order.
      external: key of data that the recipe moved out of the program to their tag.
      methods: per method its name, inputs, outputs, backends and operators, and the sizes of inputs
        with a dynamic dimension.
      payloads: names of weights by payload; two of the same bytes may differ in their names.
      packings: weights that XNNPACK packs, each once.
      unread: sha256 of XNNPACK's payloads of which nothing says what they pack, hex.
    """

    label: str
    sha256: str
    size: int
    frame: str
    versions: dict[str, str]
    segment_alignment: int = 128
    tensor_alignment: int = 16
    delegate_alignment: int = 16
    segments: tuple[BaseSegment, ...] = ()
    constants: tuple[Constant, ...] = ()
    tensors: tuple[TensorName, ...] = ()
    named_data: tuple[NamedData, ...] = ()
    external: dict[str, str] = field(default_factory=dict)
    methods: tuple[dict[str, Any], ...] = ()
    payloads: tuple[PayloadNames, ...] = ()
    packings: tuple[Packing, ...] = ()
    unread: tuple[str, ...] = ()


class Lowered:
    """A lowered program on disk.

    Args:
      folder: the directory.
      index: what is in it; None: what its index.json says.
      more: another directory with blobs.

    Raises:
      BuildError: the directory is not a lowered program, is damaged, or has another format.
    """

    def __init__(self, folder: Path, index: Index | None = None, more: Path | None = None) -> None:
        self.folder = folder
        self._more = more
        self.index = index or read_file(
            Index,
            folder / "index.json",
            "is not the index of a lowered program",
            _AGAIN,
            format=FORMAT,
            check=_check,
        )

    def program(self) -> bytes:
        """The flatbuffer of the program's tables."""
        return (self.folder / "program.bin").read_bytes()

    def blob(self, sha256: str) -> bytes:
        """The bytes of a small blob, such as a delegate's payload.

        Raises:
          BuildError: it is missing, or its bytes do not have the hash that is its name.
        """
        path = self.folder / "blobs" / sha256
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BuildError(f"{path} cannot be read: {error.strerror}.", _AGAIN) from error
        check_digest(path, hashlib.sha256(data).hexdigest(), sha256)
        return data

    def piece(self, sha256: str, size: int) -> Piece:
        """The bytes of a blob; those of size 0 have no file."""
        if not size:
            return Piece(0)
        path = self.folder / "blobs" / sha256
        if self._more and not path.is_file():
            path = self._more / "blobs" / sha256
        return Piece(size, path=path)


def write_index(folder: Path, index: Index) -> None:
    """Writes `index.json`."""
    write_json(folder / "index.json", {"format": FORMAT, **dataclasses.asdict(index)})


def store(folder: Path, piece: Piece) -> Digest:
    """Stores a piece as a blob, once, under its sha256."""
    blobs = folder / "blobs"
    blobs.mkdir(exist_ok=True)
    part = blobs / ".part"
    with open(part, "wb") as out:
        copy_piece(piece, out)
    digest = digest_of(Piece.of_file(part))
    if piece.size:
        os.replace(part, blobs / digest.sha256)
    else:
        part.unlink()
    return digest


def check_digest(path: Path | None, got: str, expected: str) -> None:
    """Fails for a blob whose bytes do not have the hash that is its name."""
    if got != expected:
        raise BuildError(f"{path} is damaged: its sha256 is {got}, expected {expected}.", _AGAIN)


def data_of(index: Index) -> list[NamedData]:
    """All data of a program that can lie outside of it, sorted by key.

    Raises:
      BuildError: data with the same key have different bytes.
    """
    data: dict[str, NamedData] = {}
    for item in [*index.named_data, *(item for _, item in _constants(index))]:
        other = data.setdefault(item.key, item)
        if not other.same_bytes(item):
            raise BuildError(
                f'{index.label}: two weights named "{item.key}" have different bytes: sha256 '
                f"{other.sha256} ({other.describe()}) and {item.sha256} ({item.describe()}).",
                "Rename one of the parameters, or embed the weights.",
            )
    return sorted(data.values(), key=lambda item: item.key)


def tensors_of(index: Index) -> dict[str, tuple[tuple[int, int], ...]]:
    """The tensors, as (plan, value), that can be loaded by each key; none of a delegate's keys."""
    delegated = {item.key for item in index.named_data}
    tensors: dict[str, tuple[tuple[int, int], ...]] = {}
    for tensor, item in _constants(index):
        if item.key not in delegated:
            tensors[item.key] = (*tensors.get(item.key, ()), (tensor.plan, tensor.value))
    return tensors


def _constants(index: Index) -> Iterator[tuple[TensorName, NamedData]]:
    """The constant tensors of a program that can be loaded by a key; empty ones cannot."""
    constants = {c.buffer: c for c in index.constants}
    for tensor in index.tensors:
        constant = constants[tensor.buffer]
        if not constant.size:
            continue
        key = tensor.name if tensor.by_name else content_key(constant.sha256, tensor.layout)
        yield (
            tensor,
            NamedData(
                key=key,
                sha256=constant.sha256,
                size=constant.size,
                crc32=constant.crc32,
                alignment=index.tensor_alignment,
                dtype=SCALAR_TYPES[tensor.layout.scalar_type][0],
                shape=tensor.layout.sizes,
                names=(tensor.name,) if tensor.name else (),
                by_name=tensor.by_name,
                layout=tensor.layout,
            ),
        )


def _check(index: Index) -> None:
    """Fails for an index whose parts do not fit together."""
    for number, segment in enumerate(index.segments):
        if segment.kind not in _SEGMENT_KINDS:
            raise FormError(
                f'it.segments[{number}].kind is "{segment.kind}", expected one of '
                f"{', '.join(_SEGMENT_KINDS)}"
            )
    blobs = {
        "segments": [s.sha256 for s in index.segments if s.kind != "constants"],
        "constants": [c.sha256 for c in index.constants],
        "named_data": [n.sha256 for n in index.named_data],
        "payloads": [p.sha256 for p in index.payloads],
    }
    for name, hashes in blobs.items():
        for number, sha256 in enumerate(hashes):
            check_hash(sha256, f"it.{name}[{number}].sha256")
    for name in ("segment_alignment", "tensor_alignment", "delegate_alignment"):
        _check_alignment(getattr(index, name), f"it.{name}")
    for number, item in enumerate(index.named_data):
        _check_alignment(item.alignment, f"it.named_data[{number}].alignment")
        _check_layout(item.layout, f"it.named_data[{number}].layout")
    for number, packing in enumerate(index.packings):
        _check_recipe(packing.recipe, f"it.packings[{number}].recipe")
    buffers = {c.buffer for c in index.constants}
    for number, tensor in enumerate(index.tensors):
        _check_layout(tensor.layout, f"it.tensors[{number}].layout")
        if tensor.buffer not in buffers:
            raise FormError(
                f"it.tensors[{number}].buffer is {tensor.buffer}, but no constant has that number"
            )


def _check_recipe(recipe: str, where: str) -> None:
    try:
        parts = json.loads(recipe)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, dict):
        raise FormError(f"{where} is not a JSON object")


def _check_alignment(alignment: int, where: str) -> None:
    if not 0 < alignment <= MAX_ALIGNMENT:
        raise FormError(f"{where} is {alignment}, expected from 1 to {MAX_ALIGNMENT} bytes")


def _check_layout(layout: Layout | None, where: str) -> None:
    if layout is not None and layout.scalar_type not in SCALAR_TYPES:
        raise FormError(f"{where} has the unknown type {layout.scalar_type}")
