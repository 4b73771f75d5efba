"""The files that changed between two releases, as their manifests have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from etlink.container import Piece, sha256_of
from etlink.json_file import check_hash, fields_of, read_object

FORMAT = 1
_HINT = "Give the manifest.json of an et_release of these rules, or build it again."


def of_releases(previous: Path, current: Path) -> dict[str, Any]:
    """Lists the files that two releases differ in, as one JSON object.

    Args:
        previous: manifest of the older one.
        current: manifest of the newer one.

    Returns:
        "changed" has path, size in bytes and sha256 of each file that the older release lacks, or
        has with other contents; "removed" has the paths that the newer one lacks.

    Raises:
        BuildError: a file is not a manifest of a release.
    """
    older, older_files = _read(previous)
    newer, newer_files = _read(current)
    return {
        "format": FORMAT,
        "previous": older,
        "current": newer,
        "changed": [
            {"file": path, **digest}
            for path, digest in sorted(newer_files.items())
            if older_files.get(path) != digest
        ],
        "removed": sorted(older_files.keys() - newer_files.keys()),
    }


def _read(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Reads which release a manifest is of, and size and sha256 of its files by path."""
    raw = read_object(path, "is not a manifest of a release", _HINT, format=1)
    with fields_of(path, _HINT):
        identity = {
            "label": str(raw["label"]),
            **({"version": str(raw["version"])} if "version" in raw else {}),
            "sha256": sha256_of(Piece.of_file(path)),
        }
        files = {}
        for name, file in raw["files"].items():
            check_hash(file["sha256"], name)
            files[name] = {"size": int(file["size"]), "sha256": str(file["sha256"])}
    return identity, files
