"""The description of a release: the JSON that rules/private/release_description.bzl writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Library:
    """A shared library that an app may have.

    Attributes:
        label: its target.
        paths: in the app, of the library and of its resources.
        purl: package that it comes from; empty: unknown.
        license: of that, as an SPDX expression; empty: unknown.
    """

    label: str
    paths: tuple[str, ...]
    purl: str
    license: str


@dataclass(frozen=True)
class App:
    """An app of the release, or of one of its packages.

    Attributes:
        label: its target.
        name: folder in its archive.
        platform: that it is for.
        file: path of its archive in the release; empty: it is part of a package only.
        manifest: output of EtApp.
        runtime: label of the runtime.
        runtime_version: ExecuTorch's version of that.
        libraries: that it may have.
        linked: packages in its binary, without the runtime: purl to SPDX expression.
    """

    label: str
    name: str
    platform: str
    file: str
    manifest: Path
    runtime: str
    runtime_version: str
    libraries: tuple[Library, ...]
    linked: Mapping[str, str]


@dataclass(frozen=True)
class Package:
    """Apps as an APK, an AAR or a Swift package.

    Attributes:
        label: its target.
        kind: "apk", "aar" or "swift_package".
        file: path in the release.
        signing_key: "own", "debug", or empty: it is not signed.
        apps: labels of its apps.
    """

    label: str
    kind: str
    file: str
    signing_key: str
    apps: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """The sources of a program.

    Attributes:
        label: its target.
        model: label of its model.
        recipe: label, builder and options, as the exporter gets them.
        packages: labels of its backends' packages.
    """

    label: str
    model: str
    recipe: Mapping[str, Any]
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """The origin of a file.

    Attributes:
        purl: package; empty: unknown.
        license: of that, as an SPDX expression; empty: unknown.
    """

    purl: str = ""
    license: str = ""


@dataclass(frozen=True)
class ModelFile:
    """A file or folder that weights come from.

    Attributes:
        label: its target.
        path: of it.
        origin: of it.
    """

    label: str
    path: Path
    origin: Origin


@dataclass(frozen=True)
class Model:
    """The sources of a model.

    Attributes:
        label: its target.
        entry_point: "module:function"; empty for exported programs.
        files: what its weights come from.
    """

    label: str
    entry_point: str
    files: tuple[ModelFile, ...]


@dataclass(frozen=True)
class Exporter:
    """The Python environment of lowerings.

    Attributes:
        executorch: version.
        torch: version.
        metadata: METADATA files of its packages.
    """

    executorch: str
    torch: str
    metadata: tuple[Path, ...]


@dataclass(frozen=True)
class Release:
    """A release; targets by their labels.

    Attributes:
        label: its target.
        name: of the target.
        version: of the attribute; may be empty.
        exporter: what lowered the programs.
        backend_packages: METADATA files by label of the backends' packages.
        apps: in the release and in its packages.
        packages: APKs, AARs and Swift packages.
        programs: all, in apps or not.
        models: of the programs.
        loose: manifest of the programs that are files of the release, or None.
        files: path in the release to the file.
    """

    label: str
    name: str
    version: str
    exporter: Exporter
    backend_packages: Mapping[str, tuple[Path, ...]]
    apps: Mapping[str, App]
    packages: tuple[Package, ...]
    programs: Mapping[str, Program]
    models: Mapping[str, Model]
    loose: Path | None
    files: Mapping[str, Path]


def read(path: Path, origins: Path, repositories: Sequence[tuple[str, str]] = ()) -> Release:
    """Reads the description of a release.

    Args:
        path: of it.
        origins: JSON: name of a repository to purl and license of what it has.
        repositories: for each repository a label as the description has it ("@@repo~1//x:y") and as
            manifests have it ("@repo//x:y").
    """
    spellings = {_repository(canonical): _repository(label) for canonical, label in repositories}
    known = {n: Origin(**o) for n, o in json.loads(origins.read_text(encoding="utf-8")).items()}
    raw = _as_in_manifests(json.loads(path.read_text(encoding="utf-8")), spellings)
    apps = [_app(app) for app in raw["apps"]]
    programs = [Program(**p | {"packages": tuple(p["packages"])}) for p in raw["programs"]]
    return Release(
        label=raw["label"],
        name=raw["name"],
        version=raw["version"],
        exporter=Exporter(**raw["exporter"] | {"metadata": _paths(raw["exporter"])}),
        backend_packages={layer["label"]: _paths(layer) for layer in raw["backend_packages"]},
        apps={app.label: app for app in apps},
        packages=tuple(Package(**p | {"apps": tuple(p["apps"])}) for p in raw["packages"]),
        programs={program.label: program for program in programs},
        models={model["label"]: _model(model, known) for model in raw["models"]},
        loose=Path(raw["loose"]) if raw["loose"] else None,
        files={path: Path(file) for path, file in raw["files"].items()},
    )


def _repository(label: str) -> str:
    return label.partition("//")[0] + "//"


def _as_in_manifests(value: Any, repositories: Mapping[str, str]) -> Any:
    """A JSON value with all its labels written as manifests have them."""
    if isinstance(value, dict):
        return {key: _as_in_manifests(item, repositories) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_in_manifests(item, repositories) for item in value]
    if isinstance(value, str) and value.startswith("@@"):
        repository = _repository(value)
        return repositories.get(repository, repository) + value.removeprefix(repository)
    return value


def _paths(raw: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(path) for path in raw["metadata"])


def _app(raw: Mapping[str, Any]) -> App:
    return App(
        label=raw["label"],
        name=raw["name"],
        platform=raw["platform"],
        file=raw["file"],
        manifest=Path(raw["manifest"]),
        runtime=raw["runtime"]["label"],
        runtime_version=raw["runtime"]["version"],
        libraries=tuple(
            Library(**library | {"paths": tuple(library["paths"])}) for library in raw["libraries"]
        ),
        linked=raw["linked"],
    )


def _model(raw: Mapping[str, Any], origins: Mapping[str, Origin]) -> Model:
    files = tuple(
        ModelFile(file["label"], Path(file["path"]), origins.get(file["repository"], Origin()))
        for file in raw["files"]
    )
    return Model(raw["label"], raw["entry_point"], files)
