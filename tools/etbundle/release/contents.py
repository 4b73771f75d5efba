"""The contents of a release: every file with its digest, every program and data file once."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etbundle.app import MANIFEST
from etbundle.release.description import Origin, Release

# What a manifest says of a file: "size" in bytes and "sha256".
Digest = Mapping[str, Any]


@dataclass(frozen=True)
class Program:
    """A program of the release, in an app or not.

    Attributes:
        label: its target.
        name: what apps call it.
        digest: of the .pte.
        methods: their names.
        backends: that it delegates to.
        operators: that it needs of a runtime.
        data: labels of the data files that it loads.
    """

    label: str
    name: str
    digest: Digest
    methods: tuple[str, ...]
    backends: tuple[str, ...]
    operators: tuple[str, ...]
    data: tuple[str, ...]


@dataclass
class Contents:
    """All that is in a release.

    Attributes:
        files: path in the release to digest.
        inside: path of an archive to its contents, path to digest.
        programs: by label.
        data: data files by label of the target that makes them.
        apps: manifests of apps by label.
        loose: manifest of the programs that are files of the release; None: there are none.
    """

    files: dict[str, Digest]
    inside: dict[str, dict[str, Digest]] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    data: dict[str, Digest] = field(default_factory=dict)
    apps: dict[str, dict[str, Any]] = field(default_factory=dict)
    loose: dict[str, Any] | None = None

    def users(self) -> dict[str, list[str]]:
        """Data file to the programs that load it; all by label."""
        users: dict[str, list[str]] = {label: [] for label in self.data}
        for program in self.programs.values():
            for label in program.data:
                users[label].append(program.label)
        return users


def digest(path: Path) -> Digest:
    """Size and sha256 of a file."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": sha256}


def read(release: Release) -> Contents:
    """Hashes all files and reads all manifests.

    Raises:
        BuildError: two apps have different files of one target.
    """
    contents = Contents({path: digest(file) for path, file in sorted(release.files.items())})
    for label, app in sorted(release.apps.items()):
        manifest = json.loads(app.manifest.read_text(encoding="utf-8"))
        contents.apps[label] = manifest
        _add(contents, manifest)
        if app.file:
            inside = {f"{app.name}/{path}": file for path, file in manifest["files"].items()}
            inside[f"{app.name}/{MANIFEST}"] = digest(app.manifest)
            contents.inside[app.file] = inside
    for package in release.packages:
        contents.inside[package.file] = dict(_members(release.files[package.file]))
    if release.loose:
        contents.loose = json.loads(release.loose.read_text(encoding="utf-8"))
        _add(contents, contents.loose)
    return contents


def _add(contents: Contents, manifest: Mapping[str, Any]) -> None:
    """Adds the programs and data files that an app's manifest lists."""
    files = manifest["files"]
    for entry in manifest["programs"]:
        program = Program(
            label=entry["label"],
            name=entry["name"],
            digest=files[entry["file"]],
            methods=tuple(entry["methods"]),
            backends=tuple(entry["backends"]),
            operators=tuple(entry["operators"]),
            data=tuple(sorted(entry["data"])),
        )
        other = contents.programs.setdefault(program.label, program)
        _check_same(program.label, other.digest, program.digest)
        for label, path in entry["data"].items():
            _check_same(label, contents.data.setdefault(label, files[path]), files[path])


def _check_same(label: str, first: Digest, second: Digest) -> None:
    if first != second:
        raise BuildError(
            f"{label}: different contents in the release: sha256 {first['sha256']} and "
            f"{second['sha256']}.",
            "Build all apps of a release in one configuration.",
        )


def _members(path: Path) -> Iterator[tuple[str, Digest]]:
    """The files in a zip."""
    with zipfile.ZipFile(path) as archive:
        for info in sorted(archive.infolist(), key=lambda member: member.filename):
            if not info.is_dir():
                with archive.open(info) as file:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
                yield info.filename, {"size": info.file_size, "sha256": sha256}


def weights(release: Release, model: str) -> list[tuple[str, Digest, Origin]]:
    """Lists the files of a model's weights: label (and path in a folder), digest and origin."""
    files = []
    for file in release.models[model].files:
        if file.path.is_dir():
            files += [
                (f"{file.label}/{name}", digest(file.path / name), file.origin)
                for name in _below(file.path)
            ]
        else:
            files.append((file.label, digest(file.path), file.origin))
    return sorted(files, key=lambda file: file[0])


def _below(folder: Path) -> Sequence[str]:
    return sorted(
        Path(parent, name).relative_to(folder).as_posix()
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
    )
