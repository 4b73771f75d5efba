"""The manifest of a release: the union of its apps' manifests, with archives for their files.

An archive's entry has its contents. A program of an app has its path in the first archive that has
its bytes, behind the archive's own ("chat.zip/chat/programs/net.pte"); so does a data file, so that
programs that share weights have one path in common.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.container import sha256_of
from etlink.manifest import File, Manifest, Program, unique_names

from etbundle.app import MANIFEST
from etbundle.release.inputs import App, Origin, Package, Release
from etbundle.release.python_packages import Environment
from etbundle.release.status import Stamp


@dataclass(frozen=True)
class Whole:
    """Contents of a release.

    Attributes:
        manifest: of the release, without its own lists.
        apps: manifests of all apps, by label.
        loose: manifest of the programs that are files of the release.
    """

    manifest: Manifest
    apps: Mapping[str, Manifest]
    loose: Manifest


def read(release: Release, environment: Environment, stamp: Stamp | None) -> Whole:
    """Hashes all files and reads all manifests.

    Args:
        release: what it is made from.
        environment: what its programs were lowered with.
        stamp: what a stamped build records of its source; None: it is not stamped.

    Raises:
        BuildError: two apps have different files of one target.
    """
    apps = {label: manifests.read(app.manifest) for label, app in sorted(release.apps.items())}
    nothing = Manifest(label=release.label, files={})
    loose = manifests.read(release.loose) if release.loose else nothing
    files = {path: described(file) for path, file in sorted(release.files.items())}
    for label, manifest in apps.items():
        app = release.apps[label]
        if app.file:
            files[app.file] = _with_app(files[app.file], app, manifest)
    labels = {file.sha256: file.label for app in apps.values() for file in app.files.values()}
    for package in release.packages:
        files[package.file] = _with_members(files[package.file], package, release, labels)
    union = manifests.union(release.label, [Manifest(label=release.label, files=files), loose])
    return Whole(
        dataclasses.replace(
            union,
            programs=_programs(release, [*apps.values(), loose], union.files),
            version=release.version,
            executorch={"exporter": release.executorch},
            python_packages={
                "python": {"python": environment.python},
                "exporter": {p.name: p.version for p in environment.exporter},
                **{
                    label: {p.name: p.version for p in packages}
                    for label, packages in environment.layers.items()
                },
            },
            source=_source(stamp) if stamp else {},
        ),
        apps,
        loose,
    )


def described(path: Path) -> File:
    """Describes a file: size and sha256."""
    return File(size=path.stat().st_size, sha256=sha256_of(path))


def _source(stamp: Stamp) -> dict[str, Any]:
    source = {"revisions": stamp.revisions, "status": dict(stamp.status)}
    return source | ({"timestamp": stamp.timestamp} if stamp.timestamp else {})


def _with_app(file: File, app: App, manifest: Manifest) -> File:
    contents = {
        f"{app.name}/{path}": File(size=f.size, sha256=f.sha256, label=f.label)
        for path, f in manifest.files.items()
    }
    contents[f"{app.name}/{MANIFEST}"] = described(app.manifest)
    return dataclasses.replace(
        file,
        label=app.label,
        contents=contents,
        platforms=(app.platform,),
        runtime=app.runtime_version,
    )


def _with_members(
    file: File, package: Package, release: Release, labels: Mapping[str, str]
) -> File:
    apps = [release.apps[label] for label in sorted(package.apps)]
    members = {
        path: dataclasses.replace(member, label=labels.get(member.sha256, ""))
        for path, member in _members(release.files[package.file])
    }
    return dataclasses.replace(
        file,
        label=package.label,
        contents=members,
        platforms=tuple(sorted({app.platform for app in apps})),
        runtime=", ".join(sorted({app.runtime_version for app in apps})),
        signing_key=package.signing_key,
    )


def _members(path: Path) -> Iterator[tuple[str, File]]:
    """The files in a zip."""
    with zipfile.ZipFile(path) as archive:
        for info in sorted(archive.infolist(), key=lambda member: member.filename):
            if not info.is_dir():
                with archive.open(info) as member:
                    sha256 = hashlib.file_digest(member, "sha256").hexdigest()
                yield info.filename, File(size=info.file_size, sha256=sha256)


def _programs(
    release: Release, parts: Sequence[Manifest], files: Mapping[str, File]
) -> dict[str, Program]:
    """All programs, each once, with the paths that their bytes have in the release."""
    paths = _paths(files)
    by_label: dict[str, tuple[str, Program]] = {}
    hashes: dict[tuple[str, str], str] = {}
    for part in parts:
        for name, program in part.programs.items():
            for path in (program.file, *program.data):
                file = part.files[path]
                of_target = (file.label, Path(path).suffix)
                _check_same(file, hashes.setdefault(of_target, file.sha256))
            new = {path: paths[part.files[path].sha256] for path in (program.file, *program.data)}
            by_label[program.label] = (name, _placed(release, program, new, files))
    labels = sorted(by_label)
    names = unique_names([(label, by_label[label][0]) for label in labels])
    return {name: by_label[label][1] for label, name in zip(labels, names, strict=True)}


def _placed(
    release: Release, program: Program, paths: Mapping[str, str], files: Mapping[str, File]
) -> Program:
    source = release.programs[program.label]
    model = release.models[source.model]
    return dataclasses.replace(
        program,
        file=paths[program.file],
        data=tuple(paths[path] for path in program.data),
        adapter=paths[program.adapter] if program.adapter else "",
        # What opens an archive's program reads the archive's own manifest.
        weight_cache=program.weight_cache if paths[program.file] in files else None,
        built_from={
            "model": model.label,
            **({"entry_point": model.entry_point} if model.entry_point else {}),
            "recipe": source.recipe,
            "backend_packages": sorted(source.packages),
        },
    )


def _paths(files: Mapping[str, File]) -> dict[str, str]:
    """The first path of each sha256: a file's, else one in an archive."""
    paths: dict[str, str] = {}
    for path, file in sorted(files.items()):
        paths.setdefault(file.sha256, path)
    for path, archive in sorted(files.items()):
        for inner, file in sorted(archive.contents.items()):
            paths.setdefault(file.sha256, f"{path}/{inner}")
    return paths


def _check_same(file: File, sha256: str) -> None:
    if sha256 != file.sha256:
        raise BuildError(
            f"{file.label}: different contents in the release: sha256 {sha256} and {file.sha256}.",
            "Build all apps of a release in one configuration.",
        )


def weights(release: Release, model: str) -> list[tuple[str, File, Origin]]:
    """Files that a model's weights come from: label (and path in a folder), digest and origin."""
    files = []
    for file in release.models[model].files:
        if file.path.is_dir():
            files += [
                (f"{file.label}/{name}", described(file.path / name), file.origin)
                for name in _below(file.path)
            ]
        else:
            files.append((file.label, described(file.path), file.origin))
    return sorted(files, key=lambda file: file[0])


def _below(folder: Path) -> Sequence[str]:
    return sorted(
        Path(parent, name).relative_to(folder).as_posix()
        for parent, _, names in os.walk(folder, followlinks=True)
        for name in names
    )
