"""The lowered program: a directory with an index, the program's tables, and one file per blob.

program.bin    the tables of the program (a flatbuffer), without segments and named data
index.json     what `Index` below holds
blobs/<sha256> the bytes of one constant, delegate payload or named datum
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink.container import Digest, Piece, copy_piece, digest_of
from etlink.payload import Packing
from etlink.ptd import Layout

FORMAT = 2


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
      by_name: whether programs may load it by that name; not where quantisation made it from the
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
      tensor_alignment: bytes between constants.
      segments: those before the named data.
      constants: of the constant segment.
      tensors: weights by name.
      named_data: in upstream's order.
      methods: per method its name, inputs, outputs, backends and operators.
      payloads: names of weights by payload; two of the same bytes may differ in their names.
      packings: weights that XNNPACK packs, each once.
    """

    label: str
    sha256: str
    size: int
    frame: str
    versions: dict[str, str]
    segment_alignment: int = 128
    tensor_alignment: int = 16
    segments: tuple[BaseSegment, ...] = ()
    constants: tuple[Constant, ...] = ()
    tensors: tuple[TensorName, ...] = ()
    named_data: tuple[NamedData, ...] = ()
    methods: tuple[dict[str, Any], ...] = ()
    payloads: tuple[PayloadNames, ...] = ()
    packings: tuple[Packing, ...] = ()
    format: int = field(default=FORMAT)


class Lowered:
    """A lowered program on disk.

    Args:
      folder: the directory.
      index: what is in it; None: what its index.json says.

    Raises:
      BuildError: it is none, or of another format.
    """

    def __init__(self, folder: Path, index: Index | None = None) -> None:
        self.folder = folder
        if index is not None:
            self.index = index
            return
        path = folder / "index.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BuildError(f"{folder} is not a lowered program: {error}.") from error
        if raw.get("format") != FORMAT:
            raise BuildError(
                f"{path}: got format {raw.get('format')}, wanted {FORMAT}.",
                "Lower it again with the rules_executorch that links it.",
            )
        self.index = _index_from(raw)

    def program(self) -> bytes:
        """The flatbuffer of the program's tables."""
        return (self.folder / "program.bin").read_bytes()

    def blob(self, blob: str) -> bytes:
        """The bytes of a small blob, such as a delegate's payload."""
        return (self.folder / "blobs" / blob).read_bytes()

    def piece(self, blob: str, size: int) -> Piece:
        """The bytes of a blob; those of size 0 have no file."""
        return Piece(size, path=self.folder / "blobs" / blob) if size else Piece(0)


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


def _index_from(raw: dict[str, Any]) -> Index:
    def layout(value: dict[str, Any] | None) -> Layout | None:
        if value is None:
            return None
        return Layout(value["scalar_type"], tuple(value["sizes"]), tuple(value["dim_order"]))

    return Index(
        **{
            **raw,
            "segments": tuple(BaseSegment(**s) for s in raw["segments"]),
            "constants": tuple(Constant(**c) for c in raw["constants"]),
            "tensors": tuple(
                TensorName(**{**t, "layout": layout(t["layout"])}) for t in raw["tensors"]
            ),
            "named_data": tuple(
                NamedData(
                    **{
                        **n,
                        "layout": layout(n["layout"]),
                        "names": tuple(n["names"]),
                        "shape": tuple(n["shape"]),
                    }
                )
                for n in raw["named_data"]
            ),
            "payloads": tuple(PayloadNames(p["blob"], tuple(p["names"])) for p in raw["payloads"]),
            "packings": tuple(Packing(**p) for p in raw["packings"]),
            "methods": tuple(raw["methods"]),
        }
    )
