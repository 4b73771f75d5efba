"""A version of an app or a release, as a folder, an archive or files, with its manifest."""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbuild.zip_check import UNREADABLE
from etbundle.app import MANIFEST
from etbundle.entries import check_name, tree
from etlink.container import Piece, sha256_of
from etlink.json_file import fields_of

_HINT = "Give an app, an et_assets, an et_release, an app's archive, or the files of one of these."


@dataclass(frozen=True)
class Folder:
    """A version.

    Attributes:
        name: what messages call it.
        manifest: bytes of its manifest.json.
        listed: what that says.
        files: path to file: all that the manifest lists.
    """

    name: str
    manifest: bytes
    listed: Mapping[str, Any]
    files: Mapping[str, Path]

    @property
    def identity(self) -> dict[str, str]:
        """Label, and sha256 of the manifest."""
        return {
            "label": str(self.listed["label"]),
            "sha256": sha256_of(Piece.of(self.manifest)),
        }

    def digest(self, path: str) -> tuple[int, str]:
        """Size and sha256 of a file, as the manifest has them."""
        file = self.listed["files"][path]
        return int(file["size"]), str(file["sha256"])


def of_files(name: str, files: Mapping[str, Path]) -> Folder:
    """A version from files by path, which are checked.

    Raises:
        BuildError: there is no manifest, or the files are not what it lists.
    """
    if MANIFEST not in files:
        raise BuildError(f"{name}: {MANIFEST} not found.", _HINT)
    manifest = files[MANIFEST].read_bytes()
    with fields_of(f"{name}: {MANIFEST}", _HINT):
        listed = json.loads(manifest)
        folder = Folder(
            name, manifest, listed, {p: files[p] for p in listed["files"] if p in files}
        )
        str(listed["label"])
        for path in sorted(listed["files"]):
            check_name(path)
            if path not in files:
                raise BuildError(f"{name}: {path} not found; its {MANIFEST} lists it.", _HINT)
            size, expected = folder.digest(path)
            got = sha256_of(Piece.of_file(files[path]))
            if got != expected or files[path].stat().st_size != size:
                raise BuildError(
                    f"{name}: {path}: sha256: got {got}, expected {expected}.",
                    "Give the files as they were built.",
                )
    return folder


def of_folder(path: Path, name: str) -> Folder:
    """A version from a folder.

    Raises:
        BuildError: as `of_files`.
    """
    return of_files(name, {entry.name: path / entry.name for entry in tree(path)})


def of_archive(archive: Path, name: str, scratch: Path) -> Folder:
    """A version from an app's archive.

    Args:
        archive: .tar.zst or .zip.
        name: what messages call it.
        scratch: folder for its files.

    Raises:
        BuildError: it is damaged, of another kind, or as `of_files`.
    """
    # Not at the top: folders need none.
    import zstandard

    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(scratch)
        else:
            with (
                archive.open("rb") as file,
                zstandard.ZstdDecompressor().stream_reader(file) as unpacked,
                tarfile.open(fileobj=unpacked, mode="r|") as opened,
            ):
                opened.extractall(scratch, filter="data")
    except (*UNREADABLE, tarfile.TarError, zstandard.ZstdError) as error:
        raise BuildError(f"{name}: {archive.name} is damaged: {error}.", _HINT) from error
    tops = [scratch, *sorted(path for path in scratch.iterdir() if path.is_dir())]
    for top in tops:
        if (top / MANIFEST).is_file():
            return of_folder(top, name)
    raise BuildError(f"{name}: {MANIFEST} not found in {archive.name}.", _HINT)
