"""What analysis knows of a release: the JSON that rules/private/release_description.bzl writes."""

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
        paths: places in the app of the library and of what belongs to it.
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
        file: place of its archive in the release; empty: it is there as part of a package only.
        manifest: what EtApp wrote.
        runtime: label of the runtime.
        runtime_version: ExecuTorch's version of that.
        libraries: that it may have.
        linked: what its binary holds beside the runtime: purl to SPDX expression.
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
        file: place in the release.
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
    """How a program is made.

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
class Model:
    """What a model is made of.

    Attributes:
        label: its target.
        entry_point: "module:function"; empty for exported programs.
        files: label and file of what its weights come from.
    """

    label: str
    entry_point: str
    files: tuple[tuple[str, Path], ...]


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
    """All of it; targets by their labels.

    Attributes:
        label: its target.
        name: of that.
        version: that the user gave; may be empty.
        exporter: what lowered the programs.
        backend_packages: METADATA files by label of the backends' packages.
        apps: in the release and in its packages.
        packages: APKs, AARs and Swift packages.
        programs: all, in apps or not.
        models: of the programs.
        loose: manifest of what is in the release as files, or None.
        files: place in the release to the file.
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


def read(path: Path, repositories: Sequence[tuple[str, str]] = ()) -> Release:
    """Reads the description of a release.

    Args:
        path: of it.
        repositories: for each repository a label as the description has it ("@@repo~1//x:y") and as
            manifests have it ("@repo//x:y").
    """
    spelled = {_repository(one): _repository(another) for one, another in repositories}
    given = _as_in_manifests(json.loads(path.read_text(encoding="utf-8")), spelled)
    apps = [_app(one) for one in given["apps"]]
    programs = [Program(**one | {"packages": tuple(one["packages"])}) for one in given["programs"]]
    return Release(
        label=given["label"],
        name=given["name"],
        version=given["version"],
        exporter=Exporter(**given["exporter"] | {"metadata": _paths(given["exporter"])}),
        backend_packages={one["label"]: _paths(one) for one in given["backend_packages"]},
        apps={app.label: app for app in apps},
        packages=tuple(Package(**one | {"apps": tuple(one["apps"])}) for one in given["packages"]),
        programs={program.label: program for program in programs},
        models={one["label"]: _model(one) for one in given["models"]},
        loose=Path(given["loose"]) if given["loose"] else None,
        files={place: Path(file) for place, file in given["files"].items()},
    )


def _repository(label: str) -> str:
    return label.partition("//")[0] + "//"


def _as_in_manifests(value: Any, repositories: Mapping[str, str]) -> Any:
    """A JSON value with all its labels written as manifests have them."""
    if isinstance(value, dict):
        return {key: _as_in_manifests(one, repositories) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_in_manifests(one, repositories) for one in value]
    if isinstance(value, str) and value.startswith("@@"):
        repository = _repository(value)
        return repositories.get(repository, repository) + value.removeprefix(repository)
    return value


def _paths(given: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(path) for path in given["metadata"])


def _app(given: Mapping[str, Any]) -> App:
    return App(
        label=given["label"],
        name=given["name"],
        platform=given["platform"],
        file=given["file"],
        manifest=Path(given["manifest"]),
        runtime=given["runtime"]["label"],
        runtime_version=given["runtime"]["version"],
        libraries=tuple(
            Library(**one | {"paths": tuple(one["paths"])}) for one in given["libraries"]
        ),
        linked=given["linked"],
    )


def _model(given: Mapping[str, Any]) -> Model:
    files = tuple((one["label"], Path(one["path"])) for one in given["files"])
    return Model(given["label"], given["entry_point"], files)
