"""`et verify`: whether an app, or a program with its data, is what a build has made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle import apps
from etbundle.app import MANIFEST
from etlink import manifest
from etlink.container import REBUILD, Piece
from etlink.json_file import FormError, decode

from etcli import places
from etcli.console import Printer, bar
from etcli.hashing import sha256_of


@dataclass(frozen=True)
class _File:
    sha256: str
    size: int


@dataclass(frozen=True)
class _Program:
    name: str
    file: str
    manifest: str
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Manifest:
    """What is read of an app's manifest."""

    files: dict[str, _File]
    binary: str
    label: str = ""
    platform: str = ""
    programs: tuple[_Program, ...] = ()
    libraries: tuple[str, ...] = ()


def verify(path: Path, data: list[Path]) -> dict[str, Any]:
    """Checks all bytes.

    Args:
      path: the folder of an app, or a .pte with its manifest beside it.
      data: of a .pte: its data files; without any those beside it.

    Returns:
      "ok", what was "checked", and "problems": a sentence each.

    Raises:
      BuildError: there is no manifest, or it can't be read.
    """
    return _app(path) if path.is_dir() else _program(path, data)


def _program(path: Path, data: list[Path]) -> dict[str, Any]:
    place = places.manifest_beside(path)
    if place is None:
        raise BuildError(
            f"{path} has no manifest beside it: there is no "
            f"{path.name.removesuffix('.pte')}.manifest.json.",
            "bazel build --output_groups=+manifest writes it; et inspect needs none.",
        )
    problems: list[str] = []
    files = data or places.data_beside(path)
    keys = _check(manifest.read(place), path, files, problems)
    checked = {"files": 1 + len(files), "programs": 1, "keys": keys}
    checked["bytes"] = sum(p.stat().st_size for p in [path, *files])
    return {"ok": not problems, "what": path.name, "checked": checked, "problems": problems}


def _app(path: Path) -> dict[str, Any]:
    app = apps.read(path)
    try:
        said = decode(_Manifest, app.manifest, extra=True)
    except FormError as error:
        raise BuildError(
            f"{path / MANIFEST} is no manifest of an app: {error}.", REBUILD
        ) from error
    problems = _listed(app, said)
    for listed in (said.binary, *said.libraries):
        if listed in app.files and not os.access(app.files[listed], os.X_OK):
            problems.append(f"{listed} can't be executed: it has lost its permissions.")
    keys = 0
    for program in said.programs:
        keys += _app_program(app, program, problems)
    checked = {
        "files": len(said.files),
        "programs": len(said.programs),
        "keys": keys,
        "bytes": sum(p.stat().st_size for p in app.files.values()),
    }
    return {
        "ok": not problems,
        "what": said.label or path.name,
        "platform": said.platform,
        "checked": checked,
        "problems": problems,
    }


def _listed(app: apps.App, said: _Manifest) -> list[str]:
    """Problems of files on their own: missing, other bytes, not listed."""
    problems = []
    with bar("Verifying", sum(p.stat().st_size for p in app.files.values())) as advance:
        for name, wanted in sorted(said.files.items()):
            if name not in app.files:
                problems.append(f"{name} is missing; {MANIFEST} lists it.")
                continue
            size = app.files[name].stat().st_size
            got = sha256_of(Piece.of_file(app.files[name]), advance)
            if size != wanted.size:
                problems.append(f"{name} has {size} bytes, wanted {wanted.size}.")
            elif got != wanted.sha256:
                problems.append(f"{name} has the sha256 {got}, wanted {wanted.sha256}.")
    extra = sorted(set(app.files) - set(said.files))
    return problems + [f"{name} is not listed in {MANIFEST}." for name in extra]


def _app_program(app: apps.App, program: _Program, problems: list[str]) -> int:
    wanted = [program.file, program.manifest, *program.data.values()]
    missing = [name for name in wanted if name not in app.files]
    if missing:
        problems.append(f'The program "{program.name}" needs {missing[0]}, which is missing.')
        return 0
    try:
        own = manifest.read(app.files[program.manifest])
    except BuildError as error:
        problems.append(error.what)
        return 0
    # In an app two data files of one name lie under others; the manifest has the targets' names.
    named = [
        entry | {"file": Path(program.data.get(entry["label"], entry["file"])).name}
        for entry in own["data"]
    ]
    data = [app.files[name] for name in program.data.values()]
    return _check(own | {"data": named}, app.files[program.file], data, problems)


def _check(own: Mapping[str, Any], path: Path, data: list[Path], problems: list[str]) -> int:
    """Adds what is wrong with a program; returns the keys that were compared."""
    try:
        manifest.check(own, path, data)
    except BuildError as error:
        problems.append(error.what)
        return 0
    return sum(len(entry["keys"]) for entry in own["data"])


def show(found: Mapping[str, Any], out: Printer) -> None:
    """Prints what `verify` returned."""
    for problem in found["problems"]:
        out.line(f"wrong: {problem}", "red")
    checked = found["checked"]
    text = (
        f"{found['what']}: {checked['files']} files, {checked['programs']} programs and "
        f"{checked['keys']} keys of data files"
    )
    if found["ok"]:
        out.line(f"{text} are what was built.", "green")
    else:
        out.line(f"{text}: {len(found['problems'])} problems.", "red")
