"""Sources of a release, as EtRelease's arguments name them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser, split_pair


@dataclass(frozen=True)
class Library:
    """A shared library that an app may have.

    Attributes:
        paths: in the app, of the library and of its resources.
        purl: package that it comes from; empty: unknown.
        license: of that, as an SPDX expression; empty: unknown.
    """

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
    libraries: tuple[Library, ...] = ()
    linked: Mapping[str, str] = field(default_factory=dict)


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
    """Sources of a program.

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
    """Origin of a file.

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
    """Sources of a model.

    Attributes:
        label: its target.
        entry_point: "module:function"; empty for exported programs.
        files: what its weights come from.
    """

    label: str
    entry_point: str
    files: tuple[ModelFile, ...]


@dataclass(frozen=True)
class Release:
    """A release; targets by their labels.

    Attributes:
        label: its target.
        version: of the attribute; may be empty.
        executorch: version that lowered the programs.
        metadata: METADATA files of the exporter's packages.
        backend_packages: METADATA files by label of the backends' packages.
        apps: in the release and in its packages.
        packages: APKs, AARs and Swift packages.
        programs: all, in apps or not.
        models: of the programs.
        loose: manifest of the programs that are files of the release, or None.
        files: path in the release to the file.
    """

    label: str
    version: str
    executorch: str
    metadata: tuple[Path, ...]
    backend_packages: Mapping[str, tuple[Path, ...]]
    apps: Mapping[str, App]
    packages: tuple[Package, ...]
    programs: Mapping[str, Program]
    models: Mapping[str, Model]
    loose: Path | None
    files: Mapping[str, Path]


def add_arguments(parser: ToolParser) -> None:
    """Adds the arguments that describe a release."""
    parser.add_argument("--label", required=True)
    parser.add_argument("--version", default="")
    parser.add_argument("--executorch", required=True, help="version that lowered the programs")
    parser.add_argument("--metadata", type=Path, action="append", default=[])
    parser.add_argument("--origins", type=Path, required=True, help="of models' repositories")
    parser.add_argument("--loose", type=Path, help="manifest of programs that are files")
    parser.add_argument("--file", type=split_pair, action="append", default=[])
    for name, metavar in (
        ("backend_packages", ("LABEL", "METADATA")),
        ("app", ("LABEL", "NAME PLATFORM FILE MANIFEST RUNTIME VERSION")),
        ("library", ("APP", "PURL LICENSE PATH…")),
        ("linked", ("APP", "PURL LICENSE")),
        ("package", ("LABEL", "KIND FILE SIGNING_KEY APP…")),
        ("program", ("LABEL", "MODEL RECIPE_LABEL RECIPE BACKEND_PACKAGES…")),
        ("model", ("LABEL", "ENTRY_POINT")),
        ("weights", ("MODEL", "LABEL FILE REPOSITORY")),
    ):
        parser.add_argument(f"--{name}", nargs="+", action="append", default=[], metavar=metavar)


def read(args: argparse.Namespace) -> Release:
    """Reads the release that arguments describe."""
    known = origins(args.origins)
    return Release(
        label=args.label,
        version=args.version,
        executorch=args.executorch,
        metadata=tuple(args.metadata),
        backend_packages={
            label: tuple(map(Path, files)) for label, *files in args.backend_packages
        },
        apps={fields[0]: _app(args, *fields) for fields in args.app},
        packages=tuple(
            Package(label, kind, file, key, tuple(apps))
            for label, kind, file, key, *apps in args.package
        ),
        programs={
            label: Program(label, model, {**json.loads(recipe), "label": name}, tuple(packages))
            for label, model, name, recipe, *packages in args.program
        },
        models={
            label: Model(
                label,
                entry_point,
                tuple(
                    ModelFile(target, Path(path), known.get(repository, Origin()))
                    for model, target, path, repository in args.weights
                    if model == label
                ),
            )
            for label, entry_point in args.model
        },
        loose=args.loose,
        files={path: Path(file) for path, file in args.file},
    )


def origins(path: Path) -> dict[str, Origin]:
    """Reads where repositories of models come from: a line of name, purl and license for each."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: Origin(purl, license) for name, purl, license in lines}


def _app(
    args: argparse.Namespace,
    label: str,
    name: str,
    platform: str,
    file: str,
    manifest: str,
    runtime: str,
    version: str,
) -> App:
    return App(
        label=label,
        name=name,
        platform=platform,
        file=file,
        manifest=Path(manifest),
        runtime=runtime,
        runtime_version=version,
        libraries=tuple(
            Library(tuple(paths), purl, license)
            for app, purl, license, *paths in args.library
            if app == label
        ),
        linked={purl: license for app, purl, license in args.linked if app == label},
    )
