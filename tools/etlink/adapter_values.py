"""The values of an adapter, for a program that was lowered with placeholders for them.

manifest.json     the tensors, each as a key of its blob
placeholders.txt  sha256 of the bytes that were lowered; of a tensor's with its name
blobs/<sha256>    the bytes of each tensor

A change of an adapter's values must not lower its program again, so lowering sees placeholders, and
linking replaces their bytes (`with_values`). The invariant is that no byte of a placeholder leaves
the linker. It holds only if lowering took each tensor as it was, and nothing else in the program
was computed from one; `check_placeholders` fails for everything that it can see of that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError

from etlink import manifest
from etlink.container import REBUILD, Piece, sha256_of, write_text
from etlink.json_file import check_hash
from etlink.lowered import check_digest, store
from etlink.manifest import File, Manifest
from etlink.named_data import NamedData

_MANIFEST, _PLACEHOLDERS = "manifest.json", "placeholders.txt"
WITHOUT = (
    "Give the files in data of the et_model, and no adapter_entry_point: each adapter is then "
    "lowered."
)


@dataclass(frozen=True)
class AdapterTensor:
    """A tensor of an adapter.

    Attributes:
      name: its qualified name in the model.
      dtype: "float32".
      shape: elements per dimension.
      placeholder: sha256 of the bytes that were lowered, hex.
      sha256: of its own bytes, hex.
      size: bytes.
      crc32: of its own bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    placeholder: str
    sha256: str
    size: int
    crc32: int

    @classmethod
    def of(cls, item: NamedData, placeholder: str) -> AdapterTensor:
        """Reads a tensor out of a key of a manifest."""
        return cls(
            name=item.key,
            dtype=item.dtype,
            shape=item.shape,
            placeholder=placeholder,
            sha256=item.sha256,
            size=item.size,
            crc32=item.crc32,
        )

    def named_data(self) -> NamedData:
        """Describes it as a key of a manifest."""
        return NamedData(
            key=self.name,
            sha256=self.sha256,
            size=self.size,
            crc32=self.crc32,
            dtype=self.dtype,
            shape=self.shape,
            by_name=True,
        )


@dataclass(frozen=True)
class Values:
    """The values that replace the placeholders that a program was lowered with.

    Attributes:
      tensors: of the adapter, sorted by name.
      placeholders: sha256 of the bytes that no program may hold, hex, sorted.
    """

    tensors: tuple[AdapterTensor, ...] = ()
    placeholders: tuple[str, ...] = ()


def add(
    folder: Path, name: str, dtype: str, shape: Sequence[int], was: bytes, now: bytes
) -> AdapterTensor:
    """Stores a tensor's bytes as a blob.

    Args:
      folder: of the values.
      name: its qualified name in the model.
      dtype: "float32".
      shape: elements per dimension.
      was: the bytes that were lowered.
      now: its own bytes.
    """
    digest = store(folder, Piece.of(now))
    return AdapterTensor(
        name=name,
        dtype=dtype,
        shape=tuple(shape),
        placeholder=sha256_of(Piece.of(was)),
        sha256=digest.sha256,
        size=len(now),
        crc32=digest.crc32,
    )


def write(folder: Path, tensors: Sequence[AdapterTensor], placeholders: Iterable[str] = ()) -> None:
    """Writes the list of what `add` stored, sorted.

    Args:
      folder: of the values.
      tensors: of `add`.
      placeholders: sha256 of all bytes that were lowered as placeholders, hex.
    """
    files: dict[str, File] = {}
    for tensor in sorted(tensors, key=lambda t: t.name):
        path = f"blobs/{tensor.sha256}"
        file = files.get(path, File(size=tensor.size, sha256=tensor.sha256))
        files[path] = dataclasses.replace(file, keys=(*file.keys, tensor.named_data()))
    manifest.write(folder / _MANIFEST, Manifest(label="", files=files))
    hashes = {*placeholders, *(t.placeholder for t in tensors)}
    lines = [f"{sha256}\n" for sha256 in sorted(hashes)]
    lines += [f"{t.placeholder} {t.name}\n" for t in sorted(tensors, key=lambda t: t.name)]
    write_text(folder / _PLACEHOLDERS, "".join(lines))


def read(folder: Path) -> Values:
    """Reads an adapter's values; the bytes of all tensors are checked.

    Raises:
      BuildError: the folder is damaged, or holds something else.
    """
    files = manifest.read(folder / _MANIFEST).files
    for path, file in files.items():
        blob = folder / path
        if {path, *(f"blobs/{d.sha256}" for d in file.keys)} != {f"blobs/{file.sha256}"}:
            raise BuildError(f"{folder / _MANIFEST}: {path} has another name than hash.", REBUILD)
        if not blob.is_file():
            raise BuildError(f"{blob} is missing.", REBUILD)
        check_digest(blob, sha256_of(blob), file.sha256)
    hashes, placeholders = _placeholders(folder / _PLACEHOLDERS)
    keys = sorted((d for file in files.values() for d in file.keys), key=lambda d: d.key)
    unknown = [d.key for d in keys if d.key not in placeholders]
    if unknown:
        raise BuildError(
            f'{folder / _PLACEHOLDERS}: placeholder of "{unknown[0]}" not found.', REBUILD
        )
    tensors = (AdapterTensor.of(item, placeholders[item.key]) for item in keys)
    return Values(tuple(tensors), hashes)


def _placeholders(path: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Reads hashes of all placeholders, and of each tensor's by name."""
    hashes, by_name = [], {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            sha256, _, name = line.partition(" ")
            check_hash(sha256, "a line")
            if name:
                by_name[name] = sha256
            else:
                hashes.append(sha256)
    except (OSError, ValueError) as error:
        raise BuildError(f"{path} does not list placeholders: {error}.", REBUILD) from error
    return tuple(hashes), by_name


def with_values(
    label: str, data: Sequence[NamedData], tensors: Sequence[AdapterTensor]
) -> tuple[NamedData, ...]:
    """A program's own data with the values of its adapter.

    Args:
      label: the program, for messages.
      data: its own data, by name, with the placeholders.
      tensors: of the adapter.

    Raises:
      BuildError: lowering did not take a tensor of the adapter as it was.
    """
    by_key = {item.key: item for item in data}
    for tensor in tensors:
        item = by_key.get(tensor.name)
        if item is None:
            raise BuildError(
                f'{label}: the adapter\'s weight "{tensor.name}" is none of the {len(data)} '
                f"weights of the program's own that have names{_like(tensor.name, list(by_key))}.",
                "adapter_entry_point returns the qualified names that the weights have in the "
                f"module. {WITHOUT}",
            )
        if item.sha256 != tensor.placeholder:
            raise BuildError(
                f'{label}: lowering changed the adapter\'s weight "{tensor.name}": got '
                f"{item.describe()}, expected the bytes that adapter_entry_point returns "
                f"({tensor.dtype} {list(tensor.shape)}, {tensor.size} bytes).",
                f"Leave the layer out of the recipe's quantization. {WITHOUT}",
            )
        by_key[tensor.name] = dataclasses.replace(item, sha256=tensor.sha256, crc32=tensor.crc32)
    return tuple(by_key.values())


def check_placeholders(
    label: str, hashes: Collection[str], others: Sequence[NamedData], values: Values
) -> None:
    """Fails where a program has something of the placeholders that it was lowered with.

    Args:
      label: the program, for messages.
      hashes: sha256 of everything that is in the program, hex.
      others: its data, in the program or beside it, that are no tensors of the adapter.
      values: of the adapter.

    Raises:
      BuildError: the program has the bytes of a placeholder, or data that were made from one.
    """
    names = {tensor.name for tensor in values.tensors}
    for item in others:
        origin = next((n for n in item.names if n.removesuffix(".scale") in names), "")
        if item.sha256 not in values.placeholders and not origin:
            continue
        problem = (
            f'made a copy of "{origin}" in another form'
            if origin
            else f'left placeholders of the adapter in "{item.title()}"'
        )
        raise BuildError(
            f"{label}: the lowering {problem}: got {item.describe()}, expected only what "
            "adapter_entry_point returns.",
            "Have adapter_entry_point return it by the name that the weight has in the module, and "
            f"leave the layer out of the recipe's quantization. {WITHOUT}",
        )
    left = sorted(set(values.placeholders).intersection(hashes))
    if left:
        raise BuildError(
            f"{label}: placeholders of the adapter: got {len(left)} constants that still contain "
            f"them, e.g. sha256 {left[0]}, expected none.",
            "Register these tensors of the module as parameters or buffers, and return them from "
            f"adapter_entry_point. {WITHOUT}",
        )


def _like(name: str, names: list[str]) -> str:
    """The end of a sentence: an example of the names that the program has."""
    if not names:
        return ""
    last = name.rsplit(".", 1)[-1]
    alike = [n for n in names if n.endswith(last)] or names
    return f', e.g. "{sorted(alike)[0]}"'
