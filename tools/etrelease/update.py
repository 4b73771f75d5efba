"""EtUpdate: writes what a newer version of an app or a release has and an older one lacks.

Contract: `etrelease.update --label L (--previous_folder DIR | --previous_archive FILE |
--previous_file PATH=FILE…) (--current_folder DIR | …) --output OUT.update --listing OUT.json`

Files of the older version are split at the boundaries of their blobs (`etbundle.blobs`), and so are
those of the newer one. A device only copies ranges, so it needs to know nothing of that, and the
update of one build can be applied by the library of another.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etbundle.blobs import blobs_of
from etlink.container import Piece
from etlink.json_file import write_json

from etrelease import difference, folder, update_file
from etrelease.folder import Folder


def make(older: Folder, newer: Folder, label: str) -> tuple[update_file.Update, list[Piece]]:
    """The update from one version to another, and the blobs in it.

    Args:
        older: version that devices have.
        newer: version that they get.
        label: target, for messages.

    Raises:
        BuildError: they are one version, or a program or data file is damaged.
    """
    if older.manifest == newer.manifest:
        raise BuildError(
            f"{label}: previous and current are the same version: sha256 "
            f"{older.identity['sha256']}.",
            "Give an earlier version as previous, e.g. the archive that you shipped.",
        )
    known: dict[str, tuple[str, int]] = {}
    for path, file in sorted(older.files.items()):
        for blob in blobs_of(file):
            known.setdefault(blob.sha256, (path, blob.offset))
    older_hashes = {older.digest(path)[1] for path in older.files}
    numbers: dict[str, int] = {}
    pieces: list[Piece] = []
    listed: list[dict[str, Any]] = []
    files: dict[str, Any] = {}
    for path, file in sorted(newer.files.items()):
        if newer.digest(path)[1] in older_hashes:
            continue
        parts: list[dict[str, Any]] = []
        for blob in blobs_of(file):
            if blob.sha256 in known:
                source, offset = known[blob.sha256]
                _add_range(parts, source, offset, blob.size)
                continue
            if blob.sha256 not in numbers:
                numbers[blob.sha256] = len(pieces)
                pieces.append(Piece(blob.size, path=file, offset=blob.offset))
                listed.append({"size": blob.size, "sha256": blob.sha256})
            parts.append({"blob": numbers[blob.sha256]})
        files[path] = {"parts": parts}
    header = {
        "format": update_file.FORMAT,
        "previous": older.identity,
        "current": {**newer.identity, "size": len(newer.manifest)},
        "blobs": listed,
        "files": files,
    }
    update = update_file.Update(Path(), header, newer.manifest, b"", Piece.of(b""))
    return update, pieces


def _add_range(parts: list[dict[str, Any]], file: str, offset: int, size: int) -> None:
    """Adds bytes of an older file; those that follow the last ones extend these."""
    last = parts[-1] if parts else {}
    if last.get("file") == file and last["offset"] + last["size"] == offset:
        last["size"] += size
    else:
        parts.append({"file": file, "offset": offset, "size": size})


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtUpdate."""
    parser = ToolParser(prog="etrelease.update", description=__doc__)
    parser.add_argument("--label", required=True)
    for version in ("previous", "current"):
        parser.add_argument(f"--{version}_folder", type=Path, help="with manifest.json")
        parser.add_argument(f"--{version}_archive", type=Path, help=".tar.zst or .zip")
        parser.add_argument(f"--{version}_file", type=split_pair, action="append", default=[])
    parser.add_argument("--output", type=Path, required=True, help="the update")
    parser.add_argument("--listing", type=Path, required=True, help="JSON: what is in it")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=args.output.parent) as scratch:
        older, newer = (
            _version(args, version, Path(scratch, version)) for version in ("previous", "current")
        )
        update, pieces = make(older, newer, args.label)
        update_file.write(args.output, update, pieces)
        changes = {"previous": older.identity, "current": newer.identity}
        changes |= difference.of_folders(older.listed, newer.listed, args.output)
    write_json(args.listing, {"format": difference.FORMAT, **changes})


def _version(args: Any, version: str, scratch: Path) -> Folder:
    name = f"{args.label}: {version}"
    given = getattr(args, f"{version}_folder")
    archive = getattr(args, f"{version}_archive")
    if given:
        return folder.of_folder(given, name)
    if archive:
        scratch.mkdir()
        return folder.of_archive(archive, name, scratch)
    return folder.of_files(name, dict(getattr(args, f"{version}_file")))


if __name__ == "__main__":
    sys.exit(main())
