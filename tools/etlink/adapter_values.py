"""An adapter's values, for a program that was lowered with others in their places.

adapter.json    what `Exchange` below holds, for each tensor
blobs/<sha256>  the bytes of each tensor
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError

from etlink.container import REBUILD, Piece, sha256_of
from etlink.data import Datum
from etlink.json_file import FormError, check_hash, decode, read_object
from etlink.lowered import check_digest, store

_FILE = "adapter.json"
WITHOUT = (
    "Give the files in data of the et_model, and no adapter_entry_point: each adapter is then "
    "lowered."
)


@dataclass(frozen=True)
class Exchange:
    """A tensor of an adapter.

    Attributes:
      name: its qualified name in the model.
      dtype: "float32".
      shape: elements per dimension.
      stand_in: sha256 of the bytes that were lowered, hex.
      blob: sha256 of its own bytes, hex.
      size: bytes.
      crc32: of its own bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stand_in: str
    blob: str
    size: int
    crc32: int


@dataclass(frozen=True)
class _Listed:
    tensors: tuple[Exchange, ...] = ()
    placeholders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Values:
    """An adapter's values.

    Attributes:
      tensors: what takes the places of what was lowered.
      placeholders: sha256 of the bytes that no program may have, hex.
    """

    tensors: tuple[Exchange, ...] = ()
    placeholders: frozenset[str] = frozenset()


def add(
    folder: Path, name: str, dtype: str, shape: Sequence[int], was: bytes, now: bytes
) -> Exchange:
    """Stores a tensor's bytes as a blob.

    Args:
      folder: of the values.
      name: its qualified name in the model.
      dtype: "float32".
      shape: elements per dimension.
      was: the bytes that were lowered.
      now: its own bytes.
    """
    stand_in = sha256_of(Piece.of(was))
    digest = store(folder, Piece.of(now))
    return Exchange(name, dtype, tuple(shape), stand_in, digest.sha256, len(now), digest.crc32)


def write(folder: Path, tensors: Sequence[Exchange], placeholders: Iterable[str] = ()) -> None:
    """Writes the list of what `add` has stored, sorted.

    Args:
      folder: of the values.
      tensors: of `add`.
      placeholders: sha256 of all bytes that were lowered in the places of an adapter's, hex.
    """
    ordered = tuple(sorted(tensors, key=lambda t: t.name))
    listed = _Listed(ordered, tuple(sorted({*placeholders, *(t.stand_in for t in ordered)})))
    text = json.dumps(dataclasses.asdict(listed), indent=1, sort_keys=True)
    (folder / _FILE).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[Exchange, ...]:
    """The tensors of an adapter; see `values`."""
    return values(folder).tensors


def values(folder: Path) -> Values:
    """An adapter's values, whose blobs are checked.

    Raises:
      BuildError: the folder is damaged, or something else.
    """
    path = folder / _FILE
    raw = read_object(path, "is no list of an adapter's values", REBUILD, folder)
    try:
        listed = decode(_Listed, raw)
        tensors = listed.tensors
        for number, digest in enumerate(listed.placeholders):
            check_hash(digest, f"it.placeholders[{number}]")
        for number, tensor in enumerate(tensors):
            check_hash(tensor.stand_in, f"it.tensors[{number}].stand_in")
            check_hash(tensor.blob, f"it.tensors[{number}].blob")
    except FormError as error:
        raise BuildError(f"{path} is damaged: {error}.", REBUILD) from error
    for tensor in tensors:
        blob = folder / "blobs" / tensor.blob
        if not blob.is_file():
            raise BuildError(f"{blob} is missing.", REBUILD)
        check_digest(blob, sha256_of(Piece.of_file(blob)), tensor.blob)
    return Values(tensors, frozenset(listed.placeholders))


def exchanged(label: str, data: Sequence[Datum], tensors: Sequence[Exchange]) -> tuple[Datum, ...]:
    """A program's own data with the values of its adapter.

    Args:
      label: the program, for messages.
      data: its own data, by name, with what was lowered.
      tensors: of the adapter.

    Raises:
      BuildError: the lowering didn't take a tensor of the adapter as it was.
    """
    found = {datum.key: datum for datum in data}
    for tensor in tensors:
        datum = found.get(tensor.name)
        if datum is None:
            raise BuildError(
                f'{label}: the adapter\'s weight "{tensor.name}" is none of the {len(data)} data '
                f"of the program's own that have names{_like(tensor.name, list(found))}.",
                "adapter_entry_point returns the qualified names that the weights have in the "
                f"module. {WITHOUT}",
            )
        if datum.blob != tensor.stand_in:
            raise BuildError(
                f"{label}: the lowering made something else of the adapter's weight "
                f'"{tensor.name}": got {datum.described()}, wanted the bytes that '
                "adapter_entry_point returns "
                f"({tensor.dtype} {list(tensor.shape)}, {tensor.size} bytes).",
                f"Leave the layer out of the recipe's quantization. {WITHOUT}",
            )
        found[tensor.name] = dataclasses.replace(datum, blob=tensor.blob, crc32=tensor.crc32)
    return tuple(found[datum.key] for datum in data)


def check_left(label: str, blobs: Collection[str], others: Sequence[Datum], values: Values) -> None:
    """Fails where a program has something of the placeholders that it was lowered with.

    Args:
      label: the program, for messages.
      blobs: sha256 of everything that is in the program, hex.
      others: its data, in the program or beside it, that no tensor of the adapter was put into.
      values: of the adapter.

    Raises:
      BuildError: a placeholder's bytes are left, or data that were made from one.
    """
    names = {tensor.name for tensor in values.tensors}
    for datum in others:
        origin = next((n for n in datum.names if n.removesuffix(".scale") in names), "")
        if datum.blob not in values.placeholders and not origin:
            continue
        what = (
            f'has a copy of "{origin}" in another form'
            if origin
            else f'has values of no adapter in "{datum.title()}"'
        )
        raise BuildError(
            f"{label}: the lowering {what}: got {datum.described()}, expected only what "
            "adapter_entry_point returns.",
            "Have adapter_entry_point return it by the name that the weight has in the module, and "
            f"leave the layer out of the recipe's quantization. {WITHOUT}",
        )
    left = sorted(values.placeholders.intersection(blobs))
    if left:
        raise BuildError(
            f"{label}: the program holds {len(left)} constants with values of no adapter, e.g. "
            f"sha256 {left[0]}, expected only what adapter_entry_point returns.",
            "Register these tensors of the module as parameters or buffers, and return them from "
            f"adapter_entry_point. {WITHOUT}",
        )


def _like(name: str, names: list[str]) -> str:
    """An example of the names that there are."""
    if not names:
        return ""
    last = name.rsplit(".", 1)[-1]
    alike = [one for one in names if one.endswith(last)] or names
    return f', e.g. "{sorted(alike)[0]}"'
