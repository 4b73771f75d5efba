"""The manifest of a program: which files a runtime needs, with which bytes, before it loads it.

A runtime pairs a program with weights by key and checks nothing else: a wrong or damaged file gives
wrong numbers or a crash. So linking writes down the size and hash of the program and of each key
that it takes from each data file, and `check` compares all of that before anything is loaded.

An adapter's file is the one that may differ. `interface` is a digest of all that an adapter depends
on: the program's own bytes, the shared bytes, and names, types and shapes of the adapter's weights,
but not their values. Two programs with the same interface take each other's adapters.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import ptd
from etlink.container import REBUILD, Digest, Piece, sha256_of
from etlink.data_index import DataIndex, read_index
from etlink.json_file import FormError, check_base_name, decode, fields_of, read_object
from etlink.named_data import Layout, NamedData
from etlink.weight_cache import WeightCache

FORMAT = 1


@dataclass(frozen=True)
class DataFile:
    """A data file that a program loads.

    Attributes:
      file: base name.
      label: target that makes it.
      kind: "shared", "own", or "adapter": another adapter's file may replace it.
      data: what the program takes from it.
    """

    file: str
    label: str
    kind: str
    data: tuple[NamedData, ...]


def make(
    label: str,
    program: Path,
    digest: Digest,
    frame: str,
    files: Sequence[DataFile],
    cache: WeightCache,
) -> dict[str, Any]:
    """The manifest as one JSON object.

    Args:
      label: the program.
      program: its .pte file.
      digest: of that; for a large one the sha256 alone, or nothing, is known.
      frame: digest of its tables and of the blobs that it holds.
      files: the data files that it loads.
      cache: whether XNNPACK's weight cache may be turned on.
    """
    of_adapter = {name: list(keys) for name, keys in cache.of_adapter.items()}
    return {
        "format": FORMAT,
        "label": label,
        "interface": interface(frame, files),
        "program": {
            "file": program.name,
            "sha256": digest.sha256,
            **({"crc32": digest.crc32} if digest.crc32 >= 0 else {}),
            "size": program.stat().st_size,
        },
        "data": [
            {
                "file": f.file,
                "label": f.label,
                "kind": f.kind,
                "keys": {
                    d.key: {
                        "sha256": d.sha256,
                        "size": d.size,
                        "crc32": d.crc32,
                        "by_name": d.by_name,
                        "dtype": d.dtype,
                        "shape": list(d.shape),
                        **({"scalar_type": d.layout.scalar_type} if d.layout else {}),
                    }
                    for d in f.data
                },
            }
            for f in files
        ],
        "weight_cache": {
            "safe": not cache.reasons,
            "reasons": list(cache.reasons),
            "packed": dict(cache.packed),
            **({"packed_of_adapter": of_adapter} if cache.packed else {}),
        },
    }


def interface(frame: str, files: Sequence[DataFile]) -> str:
    """Identifies what an adapter fits: the program, the shared bytes, and its names and shapes.

    Args:
      frame: of the program; the same for the same bytes.
      files: its data files.

    Returns:
      A digest: two programs with the same one take each other's adapters.
    """
    shared = {d.key: d.sha256 for f in files if f.kind == "shared" for d in f.data}
    own = {
        d.key: [d.dtype, list(d.shape), d.size]
        for f in files
        if f.kind == "adapter"
        for d in f.data
    }
    text = json.dumps({"program": frame, "shared": shared, "adapter": own}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class _DataForm:
    """A data file as JSON has it."""

    file: str
    label: str
    kind: str = ""
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)

    def data_file(self, where: str) -> DataFile:
        """The same with types; `where` is for messages."""
        check_base_name(self.file, f"{where}.file")
        data = (_named_data(k, v, f"{where}.keys.{k}") for k, v in self.keys.items())
        return DataFile(self.file, self.label, self.kind, tuple(data))


@dataclass(frozen=True)
class _ProgramForm:
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True)
class _Form:
    """The part of a manifest that is read."""

    data: tuple[_DataForm, ...]
    label: str = ""
    interface: str = ""
    program: _ProgramForm | None = None

    def files(self) -> list[DataFile]:
        """The data files that the program loads."""
        return [entry.data_file(f"it.data[{n}]") for n, entry in enumerate(self.data)]


def _named_data(key: str, members: Mapping[str, Any], where: str) -> NamedData:
    item = decode(NamedData, {"crc32": 0, **members, "key": key}, extra=True, where=where)
    if members.get("scalar_type") is None:
        return item
    # The manifest does not say how dimensions are ordered.
    scalar_type = decode(int, members["scalar_type"], where=f"{where}.scalar_type")
    return dataclasses.replace(item, layout=Layout(scalar_type, item.shape, ()))


def read(path: Path) -> dict[str, Any]:
    """Reads a manifest.

    Raises:
      BuildError: the file cannot be read, is not a manifest, or has another format.
    """
    problem = "is not a manifest of a program"
    manifest = read_object(path, problem, REBUILD, format=FORMAT)
    try:
        decode(_Form, manifest, extra=True).files()
    except FormError as error:
        raise BuildError(f"{path} {problem}: {error}.", REBUILD) from error
    return manifest


def check(manifest: Mapping[str, Any], program: Path, files: Sequence[Path]) -> list[Path]:
    """Checks every byte of files against a manifest, before a runtime sees them.

    Args:
      manifest: of the program.
      program: its .pte file.
      files: data files, in any order; those that the program does not need are left out.

    Returns:
      The data files to load, in the manifest's order.

    Raises:
      BuildError: a file is missing, damaged, or not the one that the program was built with.
    """
    with fields_of(f"The manifest of {program}", REBUILD):
        form = decode(_Form, manifest, extra=True)
        entries = form.files()
        _check_program(form, program)
    candidates = [_File(path) for path in files]
    matched = _match(form.interface, entries, candidates)
    for entry, file in zip(entries, matched, strict=True):
        if file is None:
            raise BuildError(
                f'{form.label}: the data file "{entry.file}" ({entry.label}) is missing.',
                "Give its path, too.",
            )
        _check_data(form, entry, file)
    return [file.path for file in matched if file]


def _check_program(form: _Form, program: Path) -> None:
    expected = form.program or _ProgramForm()
    size = program.stat().st_size if program.exists() else -1
    digest = sha256_of(Piece.of_file(program)) if size == expected.size else ""
    if size != expected.size or (expected.sha256 and digest != expected.sha256):
        raise BuildError(
            f"{form.label}: {program} is not the program of its manifest: got "
            f"{'no file' if size < 0 else _bytes(size, digest)}, expected "
            f"{_bytes(expected.size, expected.sha256)}.",
            REBUILD,
        )


def _bytes(size: int, sha256: str) -> str:
    return f"{size} bytes, sha256 {sha256}" if sha256 else f"{size} bytes"


class _File:
    """A data file that a user gives; its bytes are read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = path.with_suffix(".index.json")
        self.pieces = ptd.read(path)
        self._digests: dict[str, str] = {}

    def digest(self, key: str) -> str:
        """The sha256 of a key's bytes, hex."""
        if key not in self._digests:
            self._digests[key] = sha256_of(self.pieces[key][0])
        return self._digests[key]

    def holds(self, entry: DataFile) -> bool:
        """Tells whether it has the bytes that a program was built with."""
        return self.has_keys(entry) and all(
            self.pieces[d.key][0].size == d.size and self.digest(d.key) == d.sha256
            for d in entry.data
        )

    def has_keys(self, entry: DataFile) -> bool:
        """Tells whether it has the keys that a program asks for."""
        return all(d.key in self.pieces for d in entry.data)


def _match(
    interface: str, entries: Sequence[DataFile], files: Sequence[_File]
) -> list[_File | None]:
    """The file for each entry of a manifest; None: it is missing.

    The file's name is the weakest sign: two targets' files may have the same one.
    """

    def is_named(file: _File, entry: DataFile) -> bool:
        return file.path.name == entry.file

    def is_adapter(file: _File, entry: DataFile) -> bool:
        return (
            entry.kind == "adapter"
            and file.index.exists()
            and read_index(file.index).interface == interface
        )

    rules: list[Callable[[_File, DataFile], bool]] = [
        lambda file, entry: is_named(file, entry) and file.holds(entry),
        lambda file, entry: file.holds(entry),
        is_adapter,
        lambda file, entry: is_named(file, entry) and file.has_keys(entry),
        lambda file, entry: file.has_keys(entry),
        is_named,
    ]
    matched: list[_File | None] = [None] * len(entries)
    left = list(files)
    for rule in rules:
        for number, entry in enumerate(entries):
            file = next((f for f in left if matched[number] is None and rule(f, entry)), None)
            if file:
                matched[number] = file
                left.remove(file)
    if matched == [None] and len(left) == 1:
        # An error about the keys that it lacks says more than "missing".
        return [left[0]]
    return matched


def _check_data(form: _Form, entry: DataFile, file: _File) -> None:
    hashes = {d.key: d.sha256 for d in entry.data}
    if entry.kind == "adapter" and _is_other_adapter(entry, file):
        hashes = _adapter_hashes(form, entry, file)
    missing = sorted(d.key for d in entry.data if d.key not in file.pieces)
    if missing:
        raise BuildError(
            f"{form.label}: {file.path} is not the data of {entry.label}: {len(missing)} of "
            f'{len(entry.data)} keys are missing, e.g. "{missing[0]}".',
            "It holds other weights, or those of another recipe. Use the file that was built with "
            "the program.",
        )
    for item in sorted(entry.data, key=lambda d: d.key):
        _check_key(f"{form.label}: {file.path}", item, file, hashes.get(item.key, ""))


def _check_key(where: str, item: NamedData, file: _File, sha256: str) -> None:
    piece, layout = file.pieces[item.key]
    expected = item.layout.scalar_type if item.layout else None
    if layout and (layout.scalar_type, layout.sizes) != (expected, item.shape):
        raise BuildError(
            f'{where}: the tensor "{item.key}" has another type or shape than the program was '
            f"built with: got {list(layout.sizes)}, expected {list(item.shape)}.",
            "The file is damaged. Use the one that was built with the program.",
        )
    digest = file.digest(item.key) if piece.size == item.size else ""
    if digest != sha256:
        raise BuildError(
            f'{where}: "{item.key}" has other bytes than the program was built with: got '
            f"{_bytes(piece.size, digest)}, expected {_bytes(item.size, sha256)}.",
            "The file is damaged, or holds other weights. Use the one that was built with the "
            "program.",
        )


def _is_other_adapter(entry: DataFile, file: _File) -> bool:
    """Tells whether a file is another target's adapter, by its index, or by its name and bytes."""
    if file.index.exists():
        return read_index(file.index).label != entry.label
    return file.path.name != entry.file and not file.holds(entry)


def _adapter_hashes(form: _Form, entry: DataFile, file: _File) -> dict[str, str]:
    """Hashes of another adapter's data, which its own index gives.

    Raises:
      BuildError: it has no index, or is for another program.
    """
    if not file.index.exists():
        raise BuildError(
            f"{form.label}: the adapter {file.path} has no index beside it ({file.index.name}), so "
            "nothing says that it fits.",
            "Copy the index that was built with it.",
        )
    index = read_index(file.index)
    if index.interface == form.interface:
        return {e.key: e.sha256 for e in index.entries}
    raise BuildError(
        f"{form.label}: the adapter {file.path} ({index.label}) does not fit: "
        f"{_misfit(entry, index)}.",
        "Build it with the model, recipe and shared data of the program, and with the same rank.",
    )


def _misfit(entry: DataFile, index: DataIndex) -> str:
    theirs = index.by_key()
    for item in sorted(entry.data, key=lambda d: d.key):
        other = theirs.pop(item.key, None)
        if other is None:
            return f'it has no "{item.key}"'
        if (other.dtype, other.shape) != (item.dtype, item.shape):
            return (
                f'"{item.key}" is {other.dtype} {list(other.shape)}, expected {item.dtype} '
                f"{list(item.shape)} (another rank or base)"
            )
    if theirs:
        return f'it has "{min(theirs)}", which the program does not take'
    return (
        "its names and shapes are the same, but its program differs in base weights, layers or "
        "activation scales (static quantization puts those into the program)"
    )
