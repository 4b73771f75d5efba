"""Reads what `torch.save` and TorchScript write, without running any of it."""

from __future__ import annotations

import collections
import io
import math
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from etbuild.dtypes import DTYPES
from etbuild.zip_check import ArchiveError, members, read_member, stored

# dtype and bytes of an element, by the class of a storage.
_STORAGES = {dtype.storage: (dtype.name, dtype.size) for dtype in DTYPES if dtype.storage}
_STORAGES["UntypedStorage"] = ("uint8", 1)
_LISTS = ("build_boollist", "build_doublelist", "build_intlist", "build_tensorlist")
_MOST_TENSORS = 1_000_000


@dataclass(frozen=True)
class Storage:
    """The bytes that tensors are views of.

    Attributes:
      kind: its class in torch: "FloatStorage".
      member: the archive's member that has the bytes.
    """

    kind: str
    member: str


class Inert:
    """Replaces a class or function that a pickle names, and what calling it would return."""

    name = ""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.args = args
        self.state: Any = None

    def __new__(cls, *args: Any, **named: Any) -> Inert:
        """Takes whatever the class would have taken."""
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Takes an item of a dict."""

    def append(self, item: Any) -> None:
        """Takes an item of a list."""

    def extend(self, items: Any) -> None:
        """Takes items of a list."""

    update = extend


@dataclass(frozen=True)
class TorchArchive:
    """A file of `torch.save` or TorchScript.

    Attributes:
      names: what its pickle names: "torch._utils._rebuild_tensor_v2".
      value: what was pickled: plain values as they are, `Inert` for all else.
      is_script: whether it is TorchScript's.
      stream: the file.
      members: of the archive.
    """

    names: frozenset[str]
    value: Any
    is_script: bool
    stream: BinaryIO
    members: Mapping[str, zipfile.ZipInfo]

    def bytes_of(self, storage: Storage) -> bytes:
        """The bytes of a storage."""
        return read_member(self.stream, storage.member)


def read(stream: BinaryIO) -> TorchArchive:
    """Reads an archive's pickle, with `Inert` instead of what it would call.

    Raises:
      ArchiveError: it is damaged, or refers to bytes that are missing.
    """
    entries = members(stream)
    roots = [name.removesuffix("/data.pkl") for name in entries if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise ArchiveError(f'expected exactly one "data.pkl", got {len(roots)}')
    root = roots[0]
    stored(entries, f"{root}/data.pkl")
    reader = _Reader(read_member(stream, f"{root}/data.pkl"), entries, root)
    try:
        value = reader.load()
    except ArchiveError:
        raise
    except Exception as error:  # pickle raises whatever damaged opcodes lead to.
        raise ArchiveError(f"its pickle is damaged: {type(error).__name__}: {error}") from error
    is_script = f"{root}/constants.pkl" in entries
    return TorchArchive(frozenset(reader.names), value, is_script, stream, entries)


# The one in Python: that in C makes room for as many values as a damaged pickle numbers.
class _Reader(pickle._Unpickler):  # type: ignore[name-defined]
    def __init__(self, text: bytes, entries: Mapping[str, zipfile.ZipInfo], root: str) -> None:
        super().__init__(io.BytesIO(text), encoding="utf-8")
        self.names: set[str] = set()
        self._members = entries
        self._root = root

    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module
        self.names.add(f"{module}.{name}")
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch.jit._pickle" and name in _LISTS:
            return _same
        return type("Inert", (Inert,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Storage:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise ArchiveError("its pickle refers to something that is not a storage")
        _, kind, key, _, count = pid
        is_class = isinstance(kind, type) and issubclass(kind, Inert)
        name = kind.name.rpartition(".")[2] if is_class else ""
        if name not in _STORAGES or not isinstance(count, int) or not isinstance(key, str):
            raise ArchiveError(f'its pickle has a storage of the unknown kind "{name}"')
        member = f"{self._root}/data/{key}"
        size = stored(self._members, member).file_size
        width = _STORAGES[name][1]
        if count < 0 or count * width != size:
            raise ArchiveError(
                f'"{member}" has {size} bytes, and its pickle says {count} elements of {width}'
            )
        return Storage(name, member)


def _same(items: Any) -> Any:
    return items


def script_tensors(archive: TorchArchive) -> dict[str, Any]:
    """The tensors of a TorchScript module by qualified name, without its code.

    Raises:
      ArchiveError: a tensor isn't as large as its storage; modules contain themselves.
    """
    tensors: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [("", archive.value, 0)]
    visits = 0
    while waiting:
        prefix, value, depth = waiting.pop()
        visits += 1
        if visits > _MOST_TENSORS or depth > 100:
            raise ArchiveError("its modules contain themselves, or are too many")
        if not isinstance(value, Inert):
            continue
        if value.name.endswith("._rebuild_tensor_v2"):
            tensors[prefix] = _tensor(archive, value.args)
        elif isinstance(value.state, dict):
            for name, inner in value.state.items():
                if isinstance(inner, Inert):
                    waiting.append((f"{prefix}.{name}" if prefix else str(name), inner, depth + 1))
    return dict(sorted(tensors.items()))


def _tensor(archive: TorchArchive, args: tuple[Any, ...]) -> Any:
    import torch

    if len(args) < 4 or not isinstance(args[0], Storage):
        raise ArchiveError("a tensor has no storage")
    storage, offset, size, stride = args[:4]
    dtype = getattr(torch, _STORAGES[storage.kind][0])
    data = bytearray(archive.bytes_of(storage))
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    try:
        if math.prod(size) > flat.numel():
            raise ArchiveError(f'a tensor of "{storage.member}" has the shape {size}')
        # Copied: what is smaller than its storage would keep all of it.
        return flat.as_strided(tuple(size), tuple(stride), offset).clone()
    except (RuntimeError, TypeError) as error:
        raise ArchiveError(f'a tensor of "{storage.member}" leads outside of it') from error
