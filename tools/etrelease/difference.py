"""What a device has to fetch to get from one version of a release, or of an app, to another.

It follows from the two manifests alone. They have the hashes of all files, and of the blobs of
programs and data files. A device has every blob of the older version, in whichever file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbundle.blobs import Blob, of_manifest
from etlink.container import Piece, sha256_of
from etlink.json_file import check_hash, fields_of, read_object

FORMAT = 1
_HINT = "Give the manifest.json of an et_release of these rules, or build it again."


def of_releases(previous: Path, current: Path) -> dict[str, Any]:
    """The difference of two releases, as one JSON object.

    Args:
        previous: manifest of the older one.
        current: manifest of the newer one.

    Returns:
        "files" is the difference of the files that are not in archives, and "archives" has that of
        the contents of each archive.

    Raises:
        BuildError: a file is not a manifest of a release.
    """
    older, newer = _Manifest(previous), _Manifest(current)
    archives = sorted(older.archives.keys() | newer.archives.keys())
    return {
        "format": FORMAT,
        "previous": older.identity,
        "current": newer.identity,
        "files": _difference(older.loose, newer.loose, older.blobs, newer.blobs),
        "archives": {
            path: _difference(
                older.archives.get(path, {}),
                newer.archives.get(path, {}),
                older.blobs,
                newer.blobs,
            )
            for path in archives
        },
    }


class _Manifest:
    """A manifest of a release."""

    def __init__(self, path: Path) -> None:
        raw = read_object(path, "is not a manifest of a release", _HINT, format=1)
        with fields_of(path, _HINT):
            self.identity = {
                "label": str(raw["label"]),
                **({"version": str(raw["version"])} if "version" in raw else {}),
                "sha256": sha256_of(Piece.of_file(path)),
            }
            self.blobs = _blobs(raw)
            self.loose: dict[str, Mapping[str, Any]] = {}
            self.archives: dict[str, Mapping[str, Mapping[str, Any]]] = {}
            for name, file in raw["files"].items():
                inside = file.get("contents")
                if inside is None:
                    self.loose[name] = _checked(file)
                else:
                    self.archives[name] = {path: _checked(one) for path, one in inside.items()}


def _blobs(raw: Mapping[str, Any]) -> dict[str, list[Blob]]:
    return {sha256: of_manifest(lines) for sha256, lines in raw.get("blobs", {}).items()}


def _checked(file: Mapping[str, Any]) -> Mapping[str, Any]:
    check_hash(file["sha256"], "a file")
    return {"size": int(file["size"]), "sha256": str(file["sha256"])}


def _difference(
    older: Mapping[str, Mapping[str, Any]],
    newer: Mapping[str, Mapping[str, Any]],
    older_blobs: Mapping[str, list[Blob]],
    newer_blobs: Mapping[str, list[Blob]],
) -> dict[str, Any]:
    """What to fetch, keep and remove.

    Args:
        older: path to size and sha256.
        newer: the same.
        older_blobs: blobs by a file's sha256.
        newer_blobs: the same.
    """
    hashes = {file["sha256"] for file in older.values()}
    known = hashes | {b.sha256 for sha256 in hashes for b in older_blobs.get(sha256, ())}
    fetch, keep = [], []
    total = 0
    for path, file in sorted(newer.items()):
        total += file["size"]
        if file["sha256"] in hashes:
            keep.append(path)
            continue
        blobs = newer_blobs.get(file["sha256"], [Blob(0, file["size"], file["sha256"])])
        missing = {b.sha256: b for b in reversed(blobs) if b.sha256 not in known}
        # Another file of the update may have it, too.
        known |= missing.keys()
        lacking = sorted(missing.values(), key=lambda blob: blob.offset)
        entry = {"file": path, **file, "bytes": sum(blob.size for blob in lacking)}
        if len(blobs) > 1:
            entry["blobs"] = [
                {"offset": b.offset, "size": b.size, "sha256": b.sha256} for b in lacking
            ]
        fetch.append(entry)
    return {
        "bytes": sum(entry["bytes"] for entry in fetch),
        "total": total,
        "fetch": fetch,
        "keep": keep,
        "remove": sorted(older.keys() - newer.keys()),
    }


def as_text(difference: Mapping[str, Any]) -> str:
    """The same for people."""
    names = [_name(difference[version]) for version in ("previous", "current")]
    lines = [f"From {names[0]} to {names[1]}, in bytes", ""]
    groups = {"files of the release": difference["files"], **difference["archives"]}
    for name, group in groups.items():
        lines.append(f"{name}: fetch {group['bytes']:,} of {group['total']:,}")
        for entry in group["fetch"]:
            lines.append(f"  fetch   {entry['file']}: {entry['bytes']:,} of {entry['size']:,}")
        lines += [f"  keep    {path}" for path in group["keep"]]
        lines += [f"  remove  {path}" for path in group["remove"]]
        lines.append("")
    return "\n".join(lines)


def _name(identity: Mapping[str, str]) -> str:
    version = identity.get("version")
    return f"{identity['label']} {version}" if version else identity["label"]


def of_folders(older: Mapping[str, Any], newer: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The difference of two versions of a folder, given by their manifests.

    Args:
        older: manifest.
        newer: manifest.
        path: for messages.

    Raises:
        BuildError: a manifest is malformed.
    """
    with fields_of(path, _HINT):
        files = [{p: _checked(f) for p, f in raw["files"].items()} for raw in (older, newer)]
        blobs = [_blobs(raw) for raw in (older, newer)]
    return _difference(*files, *blobs)
