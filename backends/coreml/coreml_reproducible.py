"""Makes Core ML's payloads a function of their contents.

ExecuTorch 1.5.1 and coremltools 9.0 put into each payload: a uuid4 (identifier in metadata.json,
and the key of a model of several functions), libuuid's UUIDs (Manifest.json), the date of
conversion, protobuf maps in the order of hashes, and files in the order of the file system.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import coremltools as ct
from coremltools.models import _METADATA_CONVERSION_DATE
from executorch.backends.apple.coreml.compiler import coreml_preprocess as upstream

_PREFIX = "executorch_"


def install() -> None:
    """Replaces, for this process, what upstream's conversion takes identifiers and files from."""
    if not isinstance(upstream.uuid, _Uuids):
        uuids = _Uuids()
        upstream.uuid = uuids
        upstream.executorchcoreml = _Native(uuids)
        ct.utils.save_multifunction = _saving(ct.utils.save_multifunction, uuids)


class _Uuids:
    """Replaces the module uuid: knows which identifiers are temporary."""

    def __init__(self) -> None:
        self.temporary: set[str] = set()
        # Key of the model of several functions that was saved last.
        self.pending: list[str] = []

    def uuid4(self) -> str:
        """A temporary identifier, or the one that follows from contents."""
        if self.pending:
            return self.pending.pop()
        made = str(uuid.uuid4())
        self.temporary.add(_PREFIX + made)
        return made


class _Native:
    """Replaces upstream's extension module, of which lowering uses only this function."""

    def __init__(self, uuids: _Uuids) -> None:
        self._uuids = uuids

    def flatten_directory_contents(self, path: str) -> bytes:
        """The payload of a folder: upstream's format, in a fixed order."""
        folder = Path(path)
        for package in sorted(folder.rglob("*.mlpackage")):
            _normalize(package)
        file = folder / "metadata.json"
        metadata = json.loads(file.read_text(encoding="utf-8"))
        if metadata["identifier"] in self._uuids.temporary:
            metadata["identifier"] = _PREFIX + _digest(folder, {file.name})
            file.write_text(json.dumps(metadata), encoding="utf-8")
        return _flatten(folder)


def _saving(save: Any, uuids: _Uuids) -> Any:
    def save_multifunction(description: Any, destination: str) -> None:
        save(description, destination)
        _normalize(Path(destination))
        uuids.pending.append(_digest(Path(destination)))

    return save_multifunction


def _normalize(package: Path) -> None:
    """Rewrites a model's package without date, random identifiers and order of hashes."""
    manifest = package / "Manifest.json"
    table = json.loads(manifest.read_text(encoding="utf-8"))
    entries = table["itemInfoEntries"]
    names = {old: _identifier(entry["path"]) for old, entry in entries.items()}
    table["itemInfoEntries"] = {names[old]: entry for old, entry in entries.items()}
    table["rootModelIdentifier"] = names[table["rootModelIdentifier"]]
    manifest.write_text(json.dumps(table, indent=4, sort_keys=True), encoding="utf-8")
    for path in sorted(package.rglob("*.mlmodel")):
        model = ct.proto.Model_pb2.Model()
        model.ParseFromString(path.read_bytes())
        model.description.metadata.userDefined.pop(_METADATA_CONVERSION_DATE, None)
        path.write_bytes(model.SerializeToString(deterministic=True))


def _identifier(name: str) -> str:
    digest = hashlib.sha256(name.encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5)).upper()


def _digest(folder: Path, without: Collection[str] = ()) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in without):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _flatten(folder: Path) -> bytes:
    """Bytes of all files, then a table in JSON, reversed: upstream's "in-memory file system"."""
    data = bytearray()
    nodes: list[dict[str, Any]] = []

    def add(path: Path) -> int:
        region = {"offset": 0, "size": 0}
        children = {}
        if path.is_dir():
            children = {child.name: add(child) for child in sorted(path.iterdir())}
        else:
            content = path.read_bytes()
            region = {"offset": len(data), "size": len(content)}
            data.extend(content)
        kind = 1 if path.is_dir() else 0
        nodes.append({"children": children, "dataRegion": region, "kind": kind, "name": path.name})
        return len(nodes) - 1

    add(folder)
    table = json.dumps({"nodes": nodes}, separators=(",", ":"), sort_keys=True)
    return bytes(data) + table.encode()[::-1]
