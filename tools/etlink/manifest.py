"""The manifest of a program: what must be there, with which bytes, before it is loaded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink import ptd
from etlink.container import REBUILD, Digest, Piece, sha256_of, write_text
from etlink.data import Datum
from etlink.json_file import FormError, check_base_name, decode, fields_of, read_object
from etlink.payload import Packing
from etlink.shared import DataIndex, read_index

FORMAT = 1


@dataclass(frozen=True)
class DataFile:
    """A data file that a program loads.

    Attributes:
      file: base name.
      label: target that makes it.
      kind: "shared", "own", or "adapter": another program's own data may stand in for it.
      data: what the program takes from it.
    """

    file: str
    label: str
    kind: str
    data: tuple[Datum, ...]


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
                        "sha256": d.blob,
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
    """What an adapter fits: the program, the shared bytes, and the adapter's names and shapes.

    Args:
      frame: of the program; the same for the same bytes.
      files: its data files.

    Returns:
      A digest: two programs with the same one take each other's adapters.
    """
    shared = {d.key: d.blob for f in files if f.kind == "shared" for d in f.data}
    own = {
        d.key: [d.dtype, list(d.shape), d.size]
        for f in files
        if f.kind == "adapter"
        for d in f.data
    }
    text = json.dumps({"program": frame, "shared": shared, "adapter": own}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, manifest: Mapping[str, Any]) -> None:
    """Writes a manifest, the same bytes for the same contents."""
    write_text(path, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True)
class WeightCache:
    """Whether XNNPACK's weight cache may be turned on.

    Attributes:
      reasons: why it would give wrong numbers; empty: it is safe for this program alone.
      packed: the cache's name of a packed weight (the keys of weight and bias, joined) to a digest
        of how it is packed. Programs that are loaded together are safe where the same name has the
        same digest.
      of_adapter: the same names to the keys of the adapter whose bytes are packed, sorted: another
        adapter's bytes give another digest.
    """

    reasons: tuple[str, ...]
    packed: Mapping[str, str]
    of_adapter: Mapping[str, Sequence[str]] = field(default_factory=dict)


def weight_cache(
    packings: Iterable[Packing],
    names: Mapping[str, Sequence[str]],
    by_name: Sequence[Datum] = (),
    unread: Sequence[str] = (),
    most: int = 3,
) -> WeightCache:
    """Finds what makes XNNPACK's weight cache wrong.

    The cache finds a packed weight by the keys of weight and bias. Two layers with equal integers
    and different scales would get the same packed weight.

    Args:
      packings: of the program, with the keys that it loads by.
      names: qualified names of weights by key.
      by_name: data whose keys are names: their bytes are part of how they are packed.
      unread: sha256 of payloads that can't be read, hex.
      most: examples to give.
    """
    named = {d.key: d.blob for d in by_name}
    recipes: dict[tuple[str, str], set[str]] = {}
    of_adapter: dict[str, set[str]] = {}
    for packing in packings:
        parts = {packing.weight, packing.bias, *re.findall(r'"([^"]+)"', packing.recipe)}
        content = sorted((key, named[key]) for key in parts if key in named)
        if content:
            of_adapter.setdefault(packing.weight + packing.bias, set()).update(
                k for k, _ in content
            )
        recipe = json.dumps([packing.recipe, content]) if content else packing.recipe
        recipes.setdefault((packing.weight, packing.bias), set()).add(recipe)
    reasons = [
        f"{' and '.join(names.get(weight) or (weight,))} have equal bytes and are packed in "
        f"{len(found)} ways ({_differing(found)}), and XNNPACK's weight cache would give all of "
        "them the first one"
        for (weight, _), found in sorted(recipes.items())
        if len(found) > 1
    ][:most]
    reasons += [
        f"XNNPACK's payload with sha256 {blob} is of a form that is unknown here, so nothing says "
        "how its weights are packed"
        for blob in unread[:most]
    ]
    packed = {
        weight + bias: hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()
        for (weight, bias), found in sorted(recipes.items())
    }
    keys = {name: tuple(sorted(found)) for name, found in sorted(of_adapter.items())}
    return WeightCache(tuple(reasons), packed, keys)


def _differing(recipes: set[str]) -> str:
    """Which parts of some packings differ."""
    loaded = [json.loads(r) for r in sorted(recipes)]
    parsed = [r if isinstance(r, dict) else json.loads(r[0]) for r in loaded]
    keys = sorted({k for p in parsed for k in p})
    differing = [k for k in keys if len({json.dumps(p.get(k)) for p in parsed}) > 1]
    words = {
        "weight": "different scales, types or shapes of the weight",
        "bias": "different scales of the bias",
        "input": "different quantization of the input",
        "output": "different quantization of the output",
    }
    return ", ".join(words.get(k, f"different {k}") for k in differing)


# What is read of a manifest, with its types.


@dataclass(frozen=True)
class _Key:
    sha256: str = ""
    size: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    scalar_type: int | None = None


@dataclass(frozen=True)
class _Data:
    file: str
    label: str
    kind: str = ""
    keys: dict[str, _Key] = field(default_factory=dict)


@dataclass(frozen=True)
class _Program:
    sha256: str = ""
    size: int = 0


@dataclass(frozen=True)
class _Manifest:
    data: tuple[_Data, ...]
    label: str = ""
    interface: str = ""
    program: _Program | None = None


def read(path: Path) -> dict[str, Any]:
    """Reads a manifest.

    Raises:
      BuildError: it can't be read, or is of another format.
    """
    manifest = read_object(path, "is no manifest of a program", REBUILD)
    if manifest.get("format") != FORMAT:
        raise BuildError(f"{path}: got format {manifest.get('format')}, wanted {FORMAT}.", REBUILD)
    try:
        form = decode(_Manifest, manifest, extra=True)
        for number, entry in enumerate(form.data):
            check_base_name(entry.file, f"it.data[{number}].file")
    except FormError as error:
        raise BuildError(f"{path} is no manifest of a program: {error}.", REBUILD) from error
    return manifest


def check(manifest: Mapping[str, Any], program: Path, files: Sequence[Path]) -> list[Path]:
    """Checks files against a manifest, every byte, before a runtime sees them.

    Args:
      manifest: of the program.
      program: its .pte file.
      files: data files, in any order; those that the program doesn't ask for are left out.

    Returns:
      The data files to load, in the manifest's order.

    Raises:
      BuildError: a file is missing, damaged, or another one.
    """
    with fields_of(f"The manifest of {program}", REBUILD):
        return _checked(manifest, program, files)


def _checked(manifest: Mapping[str, Any], program: Path, files: Sequence[Path]) -> list[Path]:
    label, wanted = manifest["label"], manifest["program"]
    size = program.stat().st_size if program.exists() else -1
    digest = sha256_of(Piece.of_file(program)) if size == wanted["size"] else ""
    if size != wanted["size"] or (wanted["sha256"] and digest != wanted["sha256"]):
        got = "no file" if size < 0 else f"{size} bytes{f', sha256 {digest}' if digest else ''}"
        raise BuildError(
            f"{label}: {program} is not the program of its manifest: got {got}, wanted "
            f"{wanted['size']} bytes, sha256 {wanted['sha256']}.",
            REBUILD,
        )
    opened = [_File(path) for path in files]
    placed = _placed(manifest, opened)
    for entry, file in zip(manifest["data"], placed, strict=True):
        if file is None:
            raise BuildError(
                f'{label}: the data file "{entry["file"]}" ({entry["label"]}) is missing.',
                "Give its path, beside those of the other data files.",
            )
        _check_data(manifest, entry, file)
    return [file.path for file in placed if file]


class _File:
    """A data file that a user gives; its bytes are read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = path.with_suffix(".index.json")
        self.keys = ptd.read(path)
        self._digests: dict[str, str] = {}

    def digest(self, key: str) -> str:
        """The sha256 of a key's bytes, hex."""
        if key not in self._digests:
            self._digests[key] = sha256_of(self.keys[key][0])
        return self._digests[key]

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether it has the bytes that a program was built with."""
        return self.has_keys(entry) and all(
            self.keys[key][0].size == wanted["size"] and self.digest(key) == wanted["sha256"]
            for key, wanted in entry["keys"].items()
        )

    def has_keys(self, entry: Mapping[str, Any]) -> bool:
        """Whether it has the keys that a program asks for."""
        return self.keys.keys() >= entry["keys"].keys()


def _placed(manifest: Mapping[str, Any], files: Sequence[_File]) -> list[_File | None]:
    """The file for each entry of a manifest; None: there is none.

    A name says least: two targets' files may have the same one.
    """

    def is_named(file: _File, entry: Mapping[str, Any]) -> bool:
        return file.path.name == entry["file"]

    def is_adapter(file: _File, entry: Mapping[str, Any]) -> bool:
        return (
            entry["kind"] == "adapter"
            and file.index.exists()
            and read_index(file.index).interface == manifest["interface"]
        )

    rules: list[Callable[[_File, Mapping[str, Any]], bool]] = [
        lambda file, entry: is_named(file, entry) and file.holds(entry),
        lambda file, entry: file.holds(entry),
        is_adapter,
        lambda file, entry: is_named(file, entry) and file.has_keys(entry),
        lambda file, entry: file.has_keys(entry),
        is_named,
    ]
    placed: list[_File | None] = [None] * len(manifest["data"])
    left = list(files)
    for rule in rules:
        for number, entry in enumerate(manifest["data"]):
            match = next((f for f in left if placed[number] is None and rule(f, entry)), None)
            if match:
                placed[number] = match
                left.remove(match)
    if placed == [None] and len(left) == 1:
        # A file that lacks keys is named with what it lacks, which says more than "missing".
        return [left[0]]
    return placed


def _check_data(manifest: Mapping[str, Any], entry: Mapping[str, Any], file: _File) -> None:
    label, path, found = manifest["label"], file.path, file.keys
    hashes = {k: v["sha256"] for k, v in entry["keys"].items()}
    if entry["kind"] == "adapter" and _is_other_adapter(entry, file):
        hashes = _adapter_hashes(manifest, entry, file)
    missing = sorted(k for k in entry["keys"] if k not in found)
    if missing:
        raise BuildError(
            f"{label}: {path} is not the data of {entry['label']}: {len(missing)} of "
            f'{len(entry["keys"])} keys are missing, e.g. "{missing[0]}".',
            "It holds other weights, or those of another recipe. Use the file that was built with "
            "the program.",
        )
    for key in sorted(entry["keys"]):
        piece, layout = found[key]
        wanted = entry["keys"][key]
        if layout and (layout.scalar_type, list(layout.sizes)) != (
            wanted.get("scalar_type"),
            wanted["shape"],
        ):
            raise BuildError(
                f'{label}: {path}: the tensor "{key}" has another type or shape than the program '
                f"was built with: got {list(layout.sizes)}, wanted {wanted['shape']}.",
                "The file is damaged. Use the one that was built with the program.",
            )
        digest = file.digest(key) if piece.size == wanted["size"] else ""
        if digest != hashes.get(key):
            raise BuildError(
                f'{label}: {path}: "{key}" has other bytes than the program was built with: got '
                f"{piece.size} bytes{f', sha256 {digest}' if digest else ''}, wanted "
                f"{wanted['size']} bytes, sha256 {hashes.get(key)}.",
                "The file is damaged, or holds other weights. Use the one that was built with the "
                "program.",
            )


def _is_other_adapter(entry: Mapping[str, Any], file: _File) -> bool:
    """Whether a file is the adapter of another target: its index says so, or its name and bytes."""
    if file.index.exists():
        return read_index(file.index).label != entry["label"]
    return file.path.name != entry["file"] and not file.holds(entry)


def _adapter_hashes(
    manifest: Mapping[str, Any], entry: Mapping[str, Any], file: _File
) -> dict[str, str]:
    """Hashes of another adapter's data, which its own index gives.

    Raises:
      BuildError: it has no index, or is for another program.
    """
    label, path, place = manifest["label"], file.path, file.index
    if not place.exists():
        raise BuildError(
            f"{label}: the adapter {path} has no index beside it ({place.name}), so nothing says "
            "that it fits.",
            "Copy the index that was built with it.",
        )
    index = read_index(place)
    if index.interface == manifest["interface"]:
        return {e.key: e.sha256 for e in index.entries}
    raise BuildError(
        f"{label}: the adapter {path} ({index.label}) doesn't fit: {_misfit(entry, index)}.",
        "Build it with the model, recipe and shared data of the program, and with the same rank.",
    )


def _misfit(entry: Mapping[str, Any], index: DataIndex) -> str:
    theirs = index.by_key()
    ours = entry["keys"]
    for key in sorted(ours):
        if key not in theirs:
            return f'it has no "{key}"'
        shape, wanted = list(theirs[key].shape), ours[key]["shape"]
        if (theirs[key].dtype, shape) != (ours[key]["dtype"], wanted):
            return (
                f'"{key}" is {theirs[key].dtype} {shape}, wanted {ours[key]["dtype"]} {wanted} '
                "(another rank or base)"
            )
    extra = sorted(set(theirs) - set(ours))
    if extra:
        return f'it has "{extra[0]}", which the program doesn\'t take'
    return (
        "its names and shapes are the same, but its program differs in base weights, layers or "
        "activation scales (static quantization puts those into the program)"
    )
