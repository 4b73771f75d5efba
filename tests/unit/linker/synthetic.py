"""Programs that no compiler wrote: tables with weights, delegates and named data, without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from etlink import manifest, ptd, pte, schema
from etlink.container import Piece, Segment, aligned, digest_of
from etlink.link import Linked, Options, link
from etlink.lowered import Index, Lowered
from etlink.manifest import File, Manifest, Program
from etlink.named_data import Layout, NamedData
from etlink.share import share
from etlink.split import Hints, Weight, split

VERSIONS = {"executorch": "1", "python": "3", "torch": "2"}
FLOAT32 = 6


@dataclass
class SyntheticProgram:
    """The contents of a .pte file; tests change them before they write it.

    Attributes:
      methods: weights by qualified name and method; each is a vector of float32, given as bytes.
      delegates: payloads.
      named: data of delegates by key, in the file's order.
      alignments: bytes by key of named data.
      weights: qualified name and dtype by key of named data, of those that are weights.
      shapes: elements per dimension by name of a method's weight; default: a vector.
      outputs: elements per dimension by method of an output, which no weight is; default: none.
      label: the target.
    """

    methods: dict[str, dict[str, bytes]] = field(
        default_factory=lambda: {
            "forward": {"a.weight": bytes(range(40)), "a.bias": b"bias", "b.weight": b"w" * 12}
        }
    )
    delegates: list[bytes] = field(default_factory=lambda: [b"payload" * 30])
    named: dict[str, bytes] = field(
        default_factory=lambda: {"k2": b"two" * 99, "k1": b"one" * 5, "same": b"two" * 99}
    )
    alignments: dict[str, int] = field(default_factory=dict)
    weights: dict[str, tuple[str, str]] = field(default_factory=dict)
    shapes: dict[str, Sequence[int]] = field(default_factory=dict)
    outputs: dict[str, Sequence[int]] = field(default_factory=dict)
    label: str = "//m:program"

    def write(self, path: Path) -> Path:
        """Writes the file as upstream lays it out: constants, delegates, named data."""
        program = schema.program_class("ProgramT")()
        constants = _constants(self.methods.values())
        program.executionPlan = [
            _plan(n, w, constants, self.shapes, self.outputs.get(n))
            for n, w in self.methods.items()
        ]
        program.constantBuffer = []
        program.backendDelegateData = []
        program.mutableDataSegments = []
        program.constantSegment = schema.program_class("SubsegmentOffsetsT")()
        segments = []
        if len(constants) > 1:
            offsets, pieces = _laid_out(constants)
            program.constantSegment.offsets = offsets
            segments.append(Segment(tuple(pieces)))
        segments += [Segment((Piece.of(d),)) for d in self.delegates]
        program.namedData = _named(self.named, segments, self.alignments)
        with open(path, "wb") as out:
            pte.write(out, program, segments)
        return path

    def hints(self) -> Hints:
        """Returns the hints that the exporter would give: the weights' names."""
        tensors = {
            (plan, value): name
            for plan, weights in enumerate(self.methods.values())
            for value, name in enumerate(weights)
        }
        described: dict[str, list[Weight]] = {}
        for key, (name, dtype) in self.weights.items():
            data = self.named[key]
            described.setdefault(sha256(data), []).append(Weight(name, dtype, (len(data),)))
        return Hints(tensors=tensors, alignments=self.alignments, weights=lambda sizes: described)

    def lower(self, folder: Path, hints: Hints | None = None) -> Lowered:
        """Writes the file beside `folder` and splits it into that."""
        path = self.write(folder.with_suffix(".pte"))
        split(path, folder, self.label, VERSIONS, hints or self.hints())
        return Lowered(folder)


def named(
    key: str, data: bytes | Piece, alignment: int = 1, layout: Layout | None = None
) -> tuple[NamedData, Piece]:
    """Returns an item of a .ptd file: a key with its bytes."""
    piece = data if isinstance(data, Piece) else Piece.of(data)
    digest = digest_of(piece)
    item = NamedData(
        key=key,
        sha256=digest.sha256,
        size=piece.size,
        crc32=digest.crc32,
        alignment=alignment,
        layout=layout,
    )
    return item, piece


def sha256(data: bytes) -> str:
    """The sha256 of bytes, hex: the key that XNNPACK's data have."""
    return hashlib.sha256(data).hexdigest()


def program(
    folder: Path,
    label: str,
    weights: Mapping[str, bytes] | None = None,
    delegated: Mapping[str, bytes] | None = None,
    **fields: Any,
) -> Lowered:
    """A lowered program of portable weights and of weights that a delegate loads by sha256.

    Args:
      folder: where to.
      label: the target.
      weights: portable weights by qualified name.
      delegated: weights of the delegate by qualified name.
      **fields: of SyntheticProgram.
    """
    delegated = delegated or {}
    synthetic = SyntheticProgram(
        methods={"forward": dict(weights or {})},
        named={sha256(d): d for d in delegated.values()},
        weights={sha256(d): (n, "float32") for n, d in delegated.items()},
        label=label,
        **fields,
    )
    return synthetic.lower(folder)


class Shared(NamedTuple):
    """A shared data file: its name, and what its manifest says of it."""

    name: str
    file: File


def shared_file(path: Path, label: str, *sources: Lowered, **arguments: Any) -> Shared:
    """Writes a shared .ptd and its manifest."""
    file = share(sources, path, label, **arguments)
    manifest.write(manifest.beside(path), Manifest(label=label, files={path.name: file}))
    return Shared(path.name, file)


def link_with(
    lowered: Lowered, folder: Path, *shared: Shared, separate: bool = False, **options: Any
) -> tuple[Linked, Path, Path]:
    """Links with shared files into `folder`; returns what was written and the two paths."""
    folder.mkdir(parents=True, exist_ok=True)
    path, data = folder / "p.pte", folder / "p.ptd"
    given = Options(shared=shared, **options)
    return link(lowered, path, data if separate else None, given), path, data


def only_program(linked: Linked) -> Program:
    """Returns the only program of a linked one's manifest."""
    (program,) = linked.manifest.programs.values()
    return program


def loaded(linked: Linked) -> dict[str, list[str]]:
    """Data file to the keys that a program takes from it."""
    files = linked.manifest.files
    return {path: [d.key for d in files[path].keys] for path in only_program(linked).data}


def renamed(linked: Linked, data: Path, name: str) -> tuple[Manifest, Path]:
    """Gives a program's own data file the name of a target; writes the manifest beside it."""
    paths = {path: f"{name}.ptd" if path == data.name else path for path in linked.manifest.files}
    names = {old: name for old in linked.manifest.programs}
    made = manifest.moved(linked.manifest, paths, names)
    target = data.rename(data.with_name(f"{name}.ptd"))
    manifest.write(manifest.beside(target), made)
    return made, target


def contents(path: Path) -> dict[str, bytes]:
    """Key to bytes of a data file."""
    whole = path.read_bytes()
    return {k: whole[p.offset : p.offset + p.size] for k, (p, _) in ptd.read(path).items()}


def relink(lowered: Lowered, folder: Path, separate: bool = False) -> tuple[Linked, Path, Path]:
    """Links into `folder`; returns what was written and the two paths."""
    folder.mkdir(parents=True, exist_ok=True)
    program, data = folder / "p.pte", folder / "p.ptd"
    return link(lowered, program, data if separate else None), program, data


def tree(folder: Path) -> dict[str, bytes]:
    """All files of a folder: relative path to contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def leftovers(folder: Path) -> list[str]:
    """Names of half-written files."""
    return [path.name for path in folder.rglob("*.part")]


def biggest_blob(lowered: Lowered) -> Path:
    """The file of the largest blob."""
    blobs = (lowered.folder / "blobs").iterdir()
    return max(blobs, key=lambda path: (path.stat().st_size, path.name))


def empty_index(**fields: Any) -> Index:
    """An index of //m:program with the given fields."""
    return Index(label="//m:program", sha256="", size=0, versions=VERSIONS, **fields)


def _constants(methods: Any) -> list[bytes]:
    # The first one is a placeholder; equal bytes are stored once.
    result = [b""]
    for weights in methods:
        result += [data for data in weights.values() if data not in result]
    return list(dict.fromkeys(result))


def _laid_out(constants: Sequence[bytes]) -> tuple[list[int], list[Piece]]:
    offsets, pieces, end = [], [], 0
    for number, data in enumerate(constants):
        offsets.append(end)
        pieces.append(Piece.of(data))
        end += len(data)
        if number + 1 < len(constants):
            padding = aligned(end, 16) - end
            pieces.append(Piece.of(bytes(padding)))
            end += padding
    return offsets, pieces


def _plan(
    name: str,
    weights: Mapping[str, bytes],
    constants: Sequence[bytes],
    shapes: Mapping[str, Sequence[int]],
    output: Sequence[int] | None,
) -> Any:
    plan = schema.program_class("ExecutionPlanT")()
    plan.name = name
    plan.values = [
        _weight(constants.index(data), shapes.get(called, [len(data) // 4]))
        for called, data in weights.items()
    ]
    # Weights that are outputs would stay in the program.
    plan.inputs, plan.outputs = [], []
    if output is not None:
        plan.outputs = [len(plan.values)]
        plan.values.append(_weight(0, output))
    plan.chains, plan.operators, plan.delegates = [], [], []
    plan.nonConstBufferSizes = [0]
    return plan


def _weight(buffer: int, shape: Sequence[int]) -> Any:
    tensor = schema.program_class("TensorT")()
    tensor.scalarType = FLOAT32
    tensor.sizes, tensor.dimOrder = list(shape), list(range(len(shape)))
    tensor.dataBufferIdx = buffer
    value = schema.program_class("EValueT")()
    value.valType = schema.program_class("KernelTypes").Tensor
    value.val = tensor
    return value


def _named(
    named: Mapping[str, bytes], segments: list[Segment], alignments: Mapping[str, int]
) -> list[Any]:
    tables, segment_of = [], {}
    for key, data in named.items():
        if data not in segment_of:
            segment_of[data] = len(segments)
            segments.append(Segment((Piece.of(data),), alignments.get(key, 1)))
        table = schema.program_class("NamedDataT")()
        table.key, table.segmentIndex = key, segment_of[data]
        tables.append(table)
    return tables


def changed_program(path: Path, change: Callable[[Any], None]) -> Path:
    """Writes a program without segments, whose tables (a ProgramT) `change` has changed."""
    SyntheticProgram(methods={"forward": {}}, delegates=[], named={}).write(path)
    tables = pte.read(path).program
    change(tables)
    with open(path, "wb") as out:
        pte.write(out, tables, [])
    return path
