"""Bytes of a program: by file, by kind, by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etlink.lowered import Index
from etlink.tables import SCALAR_TYPES

OWN, SHARED = "own", "shared"


def of_program(index: Index, linked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files that a program loads, each with its data for this program.

    Args:
      index: of the lowered program.
      linked: EtLink's summary.

    Returns:
      Per file its `file`, `label`, `kind` ("own" or "shared"), `bytes` (of a shared file: those
      that this program takes) and `groups`: per group its `name`, `kind` ("constants", "weights",
      "payloads", "tables"), `bytes` and `data`: per datum its `name`, `bytes`, and where they are
      known `dtype` and `shape`. Largest first.
    """
    label, known = linked["manifest"]["label"], linked["manifest"]["files"]
    (loaded,) = linked["manifest"]["programs"].values()
    owners = _owners(known, loaded)
    files: dict[tuple[str, str, str], _File] = {}

    def file(key: tuple[str, str, str]) -> _File:
        return files.setdefault(key, _File(*key))

    program = file((loaded["file"], label, OWN))
    backend = _loads_by_key(index)
    seen: set[tuple[int, str]] = set()
    for named in index.named_data:
        home = file(owners[named.key]) if named.key in owners else program
        if (id(home), named.sha256) in seen:
            continue
        seen.add((id(home), named.sha256))
        name = ", ".join(named.names) or named.key
        home.add(backend, "weights", _datum(name, named.size, named.dtype, named.shape))
    tensors = {t.buffer: t for t in index.tensors}
    for constant in index.constants:
        tensor = tensors.get(constant.buffer)
        name = tensor.name if tensor and tensor.name else f"constant {constant.buffer}"
        home = file(owners[name]) if name in owners else program
        shape = tensor.layout.sizes if tensor else ()
        dtype = SCALAR_TYPES[tensor.layout.scalar_type][0] if tensor else ""
        if constant.size:
            home.add("portable", "constants", _datum(name, constant.size, dtype, shape))
    for name, bytes_, owner in _payloads(index):
        program.add(owner, "payloads", _datum(name, bytes_))
    for key in (k for k in files if k[2] == OWN):
        whole = linked["program_bytes" if key == program.key else "data_bytes"]
        rest = whole - files[key].bytes
        if rest > 0:
            files[key].add("", "tables", _datum("tables and padding", rest))
    return [f.described() for f in sorted(files.values(), key=lambda f: (f.kind, -f.bytes, f.key))]


def _owners(
    files: Mapping[str, Any], program: Mapping[str, Any]
) -> dict[str, tuple[str, str, str]]:
    """File, target and kind by key, of data that lie outside of the .pte."""
    owners = {}
    for path in program.get("data", ()):
        label = files[path]["label"]
        kind = OWN if label == program["label"] else SHARED
        owners |= {item["key"]: (path, label, kind) for item in files[path]["keys"]}
    return owners


def _loads_by_key(index: Index) -> str:
    """The backend whose delegates load named data, if it is a single one."""
    backends = {
        backend
        for method in index.methods
        for backend, payloads in method.get("payloads", {}).items()
        if payloads["named_data"]
    }
    return backends.pop() if len(backends) == 1 else "delegates"


def payload_bytes(index: Index) -> dict[str, int]:
    """The bytes of each payload of a delegate by its sha256."""
    return {
        blob: size
        for method in index.methods
        for payloads in method.get("payloads", {}).values()
        for blob, size in payloads["blobs"].items()
    }


def _payloads(index: Index) -> list[tuple[str, int, str]]:
    """Name, bytes and backend of each payload, each once."""
    blobs: dict[str, tuple[str, int, str]] = {}
    for method in index.methods:
        for backend, payloads in sorted(method.get("payloads", {}).items()):
            for number, (blob, size) in enumerate(payloads["blobs"].items()):
                blobs.setdefault(blob, (f"{method['name']}, delegate {number}", size, backend))
    return list(blobs.values())


def _datum(name: str, size: int, dtype: str = "", shape: Any = ()) -> dict[str, Any]:
    return {"name": name, "bytes": size, "dtype": dtype, "shape": list(shape)}


class _File:
    """A file, while its groups are collected."""

    def __init__(self, name: str, label: str, kind: str) -> None:
        self.key = (name, label, kind)
        self.kind = kind
        self._groups: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def add(self, owner: str, kind: str, datum: dict[str, Any]) -> None:
        self._groups.setdefault((owner, kind), []).append(datum)

    @property
    def bytes(self) -> int:
        return sum(d["bytes"] for group in self._groups.values() for d in group)

    def described(self) -> dict[str, Any]:
        name, label, kind = self.key
        groups = [
            {
                "name": f"{owner} {group}".strip(),
                "kind": group,
                "bytes": sum(d["bytes"] for d in data),
                "data": sorted(data, key=lambda d: (-d["bytes"], d["name"])),
            }
            for (owner, group), data in self._groups.items()
        ]
        groups.sort(key=lambda g: (-g["bytes"], g["name"]))
        return {"file": name, "label": label, "kind": kind, "bytes": self.bytes, "groups": groups}
