"""The lowered program: a directory with an index, the program's tables, and one file per blob.

program.bin    the tables of the program (a flatbuffer), without segments and named data
index.json     what `Index` below holds
blobs/<sha256> the bytes of one constant, delegate payload or named datum
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink.container import MOST_ALIGNMENT, Digest, Piece, copy_piece, digest_of
from etlink.json_file import FormError, check_hash, decode, read_object
from etlink.payload import Packing
from etlink.ptd import Layout
from etlink.tables import SCALAR_TYPES

FORMAT = 2

_AGAIN = "Build it again with an empty cache (bazel clean), and report it if it stays so."


@dataclass(frozen=True)
class Constant:
    """A piece of the constant segment that tensors of the program refer to.

    Attributes:
      buffer: index in Program.constant_segment.offsets.
      blob: sha256 of its bytes, hex.
      size: bytes, without the padding that follows.
      crc32: of its bytes: what a runner can check on every start.
    """

    buffer: int
    blob: str
    size: int
    crc32: int


@dataclass(frozen=True)
class TensorName:
    """A constant tensor of the program, which can be loaded by a key.

    Attributes:
      plan: index of the method in Program.execution_plan.
      value: index in the plan's values.
      name: fully qualified name in the model; empty: a constant that export made up.
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
      blob: sha256, hex; empty for constants.
      size: bytes.
    """

    kind: str
    blob: str
    size: int


@dataclass(frozen=True)
class NamedData:
    """A blob that a delegate loads by key.

    Attributes:
      key: the key.
      blob: sha256 of its bytes, hex.
      size: bytes.
      crc32: of its bytes: what a runner can check on every start.
      alignment: bytes.
      external: tag of a recipe that asked for its own data file; empty: part of the program.
      layout: element type and shape of a tensor that the runtime itself loads.
      names: qualified names of the weights that it is made from, where they are known.
      dtype: how the backend reads it ("float32", "qcint4", "scale", …), where that is known.
      shape: elements per dimension, where that is known.
    """

    key: str
    blob: str
    size: int
    crc32: int
    alignment: int = 1
    external: str = ""
    layout: Layout | None = None
    names: tuple[str, ...] = ()
    dtype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class PayloadNames:
    """The weights behind the constants of a delegate's payload.

    Attributes:
      blob: sha256 of the payload, hex.
      names: qualified name by constant, in the payload's order; empty where there is none.
    """

    blob: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Index:
    """What is in a lowered program.

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
      named_data: in upstream's order.
      methods: per method its name, inputs, outputs, backends and operators.
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
    methods: tuple[dict[str, Any], ...] = ()
    payloads: tuple[PayloadNames, ...] = ()
    packings: tuple[Packing, ...] = ()
    unread: tuple[str, ...] = ()
    format: int = field(default=FORMAT)


class Lowered:
    """A lowered program on disk.

    Args:
      folder: the directory.
      index: what is in it; None: what its index.json says.
      more: another directory with blobs.

    Raises:
      BuildError: it is none, or of another format.
    """

    def __init__(self, folder: Path, index: Index | None = None, more: Path | None = None) -> None:
        self.folder = folder
        self._more = more
        if index is not None:
            self.index = index
            return
        path = folder / "index.json"
        raw = read_object(path, "is not a lowered program", _AGAIN, folder)
        if raw.get("format") != FORMAT:
            raise BuildError(
                f"{path}: got format {raw.get('format')}, wanted {FORMAT}.",
                "Lower it again with the rules_executorch that links it.",
            )
        try:
            self.index = decode(Index, raw)
            _check(self.index)
        except FormError as error:
            raise BuildError(f"{path} is damaged: {error}.", _AGAIN) from error

    def program(self) -> bytes:
        """The flatbuffer of the program's tables."""
        return (self.folder / "program.bin").read_bytes()

    def blob(self, blob: str) -> bytes:
        """The bytes of a small blob, such as a delegate's payload.

        Raises:
          BuildError: it is missing, or has other bytes than its name says.
        """
        path = self.folder / "blobs" / blob
        data = _bytes_of(path)
        check_digest(path, hashlib.sha256(data).hexdigest(), blob)
        return data

    def piece(self, blob: str, size: int) -> Piece:
        """The bytes of a blob; those of size 0 have no file."""
        if not size:
            return Piece(0)
        path = self.folder / "blobs" / blob
        if self._more and not path.is_file():
            path = self._more / "blobs" / blob
        return Piece(size, path=path)


def write_index(folder: Path, index: Index) -> None:
    """Writes `index.json`, sorted, the same bytes for the same index."""
    text = json.dumps(dataclasses.asdict(index), indent=1, sort_keys=True)
    (folder / "index.json").write_text(text + "\n", encoding="utf-8")


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


def check_digest(path: Path | None, got: str, wanted: str) -> None:
    """Fails for a blob whose bytes are others than its name says."""
    if got != wanted:
        raise BuildError(f"{path} is damaged: its sha256 is {got}, wanted {wanted}.", _AGAIN)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BuildError(f"{path} can't be read: {error.strerror}.", _AGAIN) from error


def _check(index: Index) -> None:
    """Fails for an index whose parts don't fit together."""
    for number, segment in enumerate(index.segments):
        if segment.kind not in ("constants", "mutable", "delegate"):
            raise FormError(f'it.segments[{number}].kind is "{segment.kind}", which there is not')
    blobs: dict[str, list[str]] = {
        "segments": [s.blob for s in index.segments if s.kind != "constants"],
        "constants": [c.blob for c in index.constants],
        "named_data": [n.blob for n in index.named_data],
        "payloads": [p.blob for p in index.payloads],
    }
    for name, listed in blobs.items():
        for number, blob in enumerate(listed):
            check_hash(blob, f"it.{name}[{number}].blob")
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
                f"it.tensors[{number}].buffer is {tensor.buffer}, which no constant has"
            )


def _check_recipe(recipe: str, where: str) -> None:
    try:
        parts = json.loads(recipe)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, dict):
        raise FormError(f"{where} is no object in JSON")


def _check_alignment(alignment: int, where: str) -> None:
    if not 0 < alignment <= MOST_ALIGNMENT:
        raise FormError(f"{where} is {alignment}, wanted from 1 to {MOST_ALIGNMENT} bytes")


def _check_layout(layout: Layout | None, where: str) -> None:
    if layout is not None and layout.scalar_type not in SCALAR_TYPES:
        raise FormError(f"{where} has the type {layout.scalar_type}, which there is not")
