"""Packs what apps for several platforms have in common once.

Programs, data and assets do not depend on the platform, so all apps of a package must have the same
ones; only binaries and libraries may differ. Their manifests have hashes, which are compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink.container import REBUILD
from etlink.json_file import fields_of, read_object

from etbundle.app import MANIFEST
from etbundle.entries import Entry, tree

# Folders of an app with the same contents on all platforms.
_COMMON_FOLDERS = ("assets", "data", "programs")
_LICENSES = "licenses"
# Members of a manifest that depend on the platform.
_OF_PLATFORM = ("app", "binary", "files", "label", "libraries", "platform")


@dataclass(frozen=True)
class App:
    """An app directory, as et_runner_app makes it.

    Attributes:
        directory: where it is.
        manifest: what its manifest.json says.
        files: path in the directory to the file.
    """

    directory: Path
    manifest: dict[str, Any]
    files: dict[str, Path] = field(repr=False)

    @property
    def name(self) -> str:
        """The app's name in messages."""
        return str(self.manifest.get("label") or self.directory)

    def digest(self, path: str) -> str:
        """The sha256 of a file, as the manifest has it.

        Raises:
            BuildError: the manifest does not list the file.
        """
        with fields_of(f"{self.directory}/{MANIFEST}", REBUILD):
            files = self.manifest["files"]
            if path in files:
                return str(files[path]["sha256"])
        raise BuildError(
            f"{self.name}: its {MANIFEST} does not list {path}, which is in the app.",
            "Pack only directories that et_runner_app wrote.",
        )

    def below(self, folder: str) -> list[str]:
        """Paths of the files in a folder of it."""
        return [path for path in self.files if path.startswith(folder + "/")]


def read(directory: Path) -> App:
    """Reads an app's manifest and lists its files.

    Raises:
        BuildError: it has no manifest, or one of another format.
    """
    files = {entry.name: entry.source for entry in tree(directory)}
    source = files.pop(MANIFEST, None)
    if not isinstance(source, Path):
        raise BuildError(
            f"{directory} is not an app: {MANIFEST} not found.",
            "Give the folder of an et_runner_app.",
        )
    manifest = read_object(source, "is not a manifest of an app", REBUILD, format=1)
    return App(directory, manifest, {n: p for n, p in files.items() if isinstance(p, Path)})


@dataclass(frozen=True)
class Common:
    """The common part of apps.

    Attributes:
        manifest: contents of the manifest.json for all of them.
        files: path to file: programs, data, assets, licenses.
    """

    manifest: bytes
    files: dict[str, Path]

    def entries(self, folder: str) -> list[Entry]:
        """All of it, below a folder of an archive."""
        manifest = Entry(f"{folder}/{MANIFEST}", self.manifest)
        return [manifest, *(Entry(f"{folder}/{name}", path) for name, path in self.files.items())]


def common(apps: Sequence[App], name: str) -> Common:
    """Returns what apps for several platforms have in common.

    Args:
        apps: at least one.
        name: of the package.

    Raises:
        BuildError: they differ in more than the platform.
    """
    first = apps[0]
    for other in apps[1:]:
        _check_same_files(first, other)
        _check_same_manifests(first, other)
    files = {path: first for path in _common_files(first)}
    for app in apps:
        for path in app.below(_LICENSES):
            _check_same(path, files.setdefault(path, app), app)
    with fields_of(f"The {MANIFEST} of {' or '.join(app.name for app in apps)}", REBUILD):
        manifest = _any_platform(first) | {
            "app": name,
            "files": {path: app.manifest["files"][path] for path, app in sorted(files.items())},
            "platforms": [app.manifest["platform"] for app in apps],
        }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    return Common(text.encode(), {path: app.files[path] for path, app in sorted(files.items())})


def _common_files(app: App) -> list[str]:
    """Paths of what is in an app on any platform."""
    return [path for folder in _COMMON_FOLDERS for path in app.below(folder)]


def _any_platform(app: App) -> dict[str, Any]:
    """Returns the part of the manifest that holds for any platform."""
    return {key: value for key, value in app.manifest.items() if key not in _OF_PLATFORM}


def _check_same_manifests(first: App, other: App) -> None:
    ours, theirs = _any_platform(first), _any_platform(other)
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            raise BuildError(
                f'{first.name} and {other.name} differ in "{key}" of their {MANIFEST}: '
                f"{ours.get(key)} and {theirs.get(key)}.",
                "Apps in one package have the same programs, data and runtime version.",
            )


def _check_same_files(first: App, other: App) -> None:
    for app, lacking in ((first, other), (other, first)):
        missing = sorted(set(_common_files(app)) - set(_common_files(lacking)))
        if missing:
            raise BuildError(
                f"{lacking.name} lacks {missing[0]}, which {app.name} has.",
                "Apps in one package have the same programs and data.",
            )
    for path in _common_files(first):
        _check_same(path, first, other)


def _check_same(path: str, first: App, other: App) -> None:
    if first.digest(path) != other.digest(path):
        raise BuildError(
            f"{path} differs between {first.name} (sha256 {first.digest(path)}) and {other.name} "
            f"(sha256 {other.digest(path)}).",
            "Apps in one package have the same programs and data: give both the same targets.",
        )
