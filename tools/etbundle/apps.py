"""Packs what apps for several platforms have in common once.

Programs, data and assets do not depend on the platform, so all apps of a package must have the same
ones; only binaries and libraries may differ. Their manifests have hashes, which are compared.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etbuild.errors import BuildError
from etlink import manifest as manifests
from etlink.manifest import Manifest

from etbundle.app import MANIFEST
from etbundle.entries import Entry, tree

# Folders of an app whose files are packed once; licenses may differ between platforms.
_LICENSES = "licenses/"
_COMMON = ("assets/", "data/", "programs/", _LICENSES)


@dataclass(frozen=True)
class App:
    """An app directory, as et_runner_app makes it.

    Attributes:
        directory: where it is.
        manifest: its manifest.json.
        files: path in the directory to the file.
    """

    directory: Path
    manifest: Manifest
    files: dict[str, Path] = field(repr=False)

    def below(self, folder: str) -> list[str]:
        """Paths of the files in a folder of it."""
        return [path for path in self.files if path.startswith(folder + "/")]


def read(directory: Path) -> App:
    """Reads an app's manifest and lists its files.

    Raises:
        BuildError: it has no manifest, or a malformed one.
    """
    files = {entry.name: entry.source for entry in tree(directory)}
    source = files.pop(MANIFEST, None)
    if not isinstance(source, Path):
        raise BuildError(
            f"{directory} is not an app: {MANIFEST} not found.",
            "Give the folder of an et_runner_app.",
        )
    manifest = manifests.read(source)
    return App(directory, manifest, {n: p for n, p in files.items() if isinstance(p, Path)})


def common(apps: Sequence[App], label: str, folder: str) -> list[Entry]:
    """Lists what apps have in common: programs, data, assets, licenses, and a manifest of them.

    Args:
        apps: at least one.
        label: of the package.
        folder: of the package that has it.

    Raises:
        BuildError: they differ in more than the platform.
    """
    parts = [_any_platform(app.manifest) for app in apps]
    first = parts[0]
    for other in parts[1:]:
        _check_same(first, other)
        _check_same(other, first)
    union = manifests.union(label, parts)
    platforms = [platform for app in apps for platform in app.manifest.platforms]
    union = dataclasses.replace(
        union, executorch=first.executorch, platforms=tuple(dict.fromkeys(platforms))
    )
    sources = {path: file for app in apps for path, file in app.files.items()}
    missing = sorted(union.files.keys() - sources.keys())
    if missing:
        raise BuildError(
            f"{label}: {missing[0]} not found in an app whose {MANIFEST} lists it.",
            "Pack only directories that et_runner_app wrote.",
        )
    entries = [Entry(f"{folder}/{MANIFEST}", manifests.text(union).encode())]
    return entries + [Entry(f"{folder}/{path}", sources[path]) for path in sorted(union.files)]


def _any_platform(app: Manifest) -> Manifest:
    """Leaves out what is of one platform."""
    files = {path: file for path, file in app.files.items() if path.startswith(_COMMON)}
    return dataclasses.replace(app, files=files, binary="", libraries=())


def _check_same(first: Manifest, other: Manifest) -> None:
    """Fails for what the other one lacks, but variants that are not for its platform."""
    kept = {path for path in first.files if not path.startswith(_LICENSES)}
    programs, files = _of_variants(first)
    missing = (
        sorted(kept - other.files.keys() - files)
        or sorted(first.programs.keys() - other.programs.keys() - programs)
        or sorted(first.variants.keys() - other.variants.keys())
    )
    if missing:
        raise BuildError(
            f"{other.label} lacks {missing[0]}, which {first.label} has.",
            "Apps in one package have the same programs and data.",
        )
    if first.executorch != other.executorch:
        raise BuildError(
            f"{first.label} and {other.label} have other versions of ExecuTorch: "
            f"{json.dumps(first.executorch)} and {json.dumps(other.executorch)}.",
            "Apps in one package have the same runtime version.",
        )


def _of_variants(app: Manifest) -> tuple[set[str], set[str]]:
    """Names of programs that are variants, and paths of files that only those load."""
    names = {variant.program for listed in app.variants.values() for variant in listed}
    files: dict[bool, set[str]] = {True: set(), False: set()}
    for name, program in app.programs.items():
        files[name in names] |= {program.file, *program.data}
    return names, files[True] - files[False]
