"""`et verify`: checks that an app, a release or a program is what was built."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle import apps
from etbundle.app import MANIFEST
from etlink import manifest
from etlink.container import REBUILD, Piece, sha256_of
from etlink.json_file import FormError, decode

from etcli import paths
from etcli.command import Outcome, add_data_option
from etcli.console import Printer, bar


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
    """The fields of an app's manifest that are read."""

    files: dict[str, _File]
    binary: str
    label: str = ""
    platform: str = ""
    programs: tuple[_Program, ...] = ()
    libraries: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "path", metavar="APP_DIR", help="the folder of an app or a release, or a .pte"
    )
    add_data_option(parser)


def command(options: argparse.Namespace) -> Outcome:
    """Checks an app or a program; exit code 1: something is not what was built."""
    data = [paths.existing(p) for p in options.data]
    result = verify(paths.existing(options.path), data)
    return Outcome(result, lambda out: show(result, out), code=0 if result["ok"] else 1)


def verify(path: Path, data: list[Path]) -> dict[str, Any]:
    """Checks all bytes.

    Args:
      path: the folder of an app or a release, or a .pte with its manifest beside it.
      data: of a .pte: its data files; without any those beside it.

    Returns:
      "ok", "checked" (numbers of files, programs, keys, bytes), and "problems": a sentence each.

    Raises:
      BuildError: there is no manifest, or it cannot be read.
    """
    if path.is_dir():
        return _app(path)
    return _program(path, data)


def _program(path: Path, data: list[Path]) -> dict[str, Any]:
    own_manifest = paths.manifest_beside(path)
    if own_manifest is None:
        raise BuildError(
            f"{path} has no manifest beside it: {path.name.removesuffix('.pte')}.manifest.json "
            "not found.",
            "bazel build --output_groups=+manifest writes it; et inspect needs none.",
        )
    problems: list[str] = []
    files = data or paths.data_beside(path)
    keys = _check(manifest.read(own_manifest), path, files, problems)
    checked = {"files": 1 + len(files), "programs": 1, "keys": keys}
    checked["bytes"] = sum(p.stat().st_size for p in [path, *files])
    return {"ok": not problems, "what": path.name, "checked": checked, "problems": problems}


def _app(path: Path) -> dict[str, Any]:
    app = apps.read(path)
    # Lists the manifest, too.
    app.files.pop("SHA256SUMS", None)
    if "release" in app.manifest:
        return _release(path, app)
    try:
        listed = decode(_Manifest, app.manifest, extra=True)
    except FormError as error:
        raise BuildError(
            f"{path / MANIFEST} is not the manifest of an app: {error}.", REBUILD
        ) from error
    problems = _file_problems(app, listed.files)
    for name in (listed.binary, *listed.libraries):
        if name in app.files and not os.access(app.files[name], os.X_OK):
            problems.append(f"{name} cannot be executed: it has lost its permissions.")
    keys = sum(_app_program(app, program, problems) for program in listed.programs)
    checked = {
        "files": len(listed.files),
        "programs": len(listed.programs),
        "keys": keys,
        "bytes": sum(p.stat().st_size for p in app.files.values()),
    }
    return {
        "ok": not problems,
        "what": listed.label or path.name,
        "platform": listed.platform,
        "checked": checked,
        "problems": problems,
    }


def _release(path: Path, app: apps.App) -> dict[str, Any]:
    try:
        files = decode(dict[str, _File], app.manifest["files"], extra=True)
    except (FormError, LookupError) as error:
        raise BuildError(
            f"{path / MANIFEST} is not the manifest of a release: {error}.", REBUILD
        ) from error
    # The files that changed since an earlier release, which follow from the manifests.
    app.files.pop("changes.json", None)
    problems = _file_problems(app, files)
    checked = {"files": len(files), "programs": len(app.manifest.get("programs", ())), "keys": 0}
    checked["bytes"] = sum(p.stat().st_size for p in app.files.values())
    return {"ok": not problems, "what": app.name, "checked": checked, "problems": problems}


def _file_problems(app: apps.App, files: Mapping[str, _File]) -> list[str]:
    """Problems of files on their own: missing, other bytes, not listed."""
    problems = []
    with bar("Verifying", sum(p.stat().st_size for p in app.files.values())) as advance:
        for name, expected in sorted(files.items()):
            if name not in app.files:
                problems.append(f"{name} is missing; {MANIFEST} lists it.")
                continue
            size = app.files[name].stat().st_size
            sha256 = sha256_of(Piece.of_file(app.files[name]), advance)
            if size != expected.size:
                problems.append(f"{name}: size: got {size} bytes, expected {expected.size}.")
            elif sha256 != expected.sha256:
                problems.append(f"{name}: sha256: got {sha256}, expected {expected.sha256}.")
    extra = sorted(set(app.files) - set(files))
    return problems + [f"{name} is not listed in {MANIFEST}." for name in extra]


def _app_program(app: apps.App, program: _Program, problems: list[str]) -> int:
    needed = [program.file, program.manifest, *program.data.values()]
    missing = [name for name in needed if name not in app.files]
    if missing:
        problems.append(f'The program "{program.name}" needs {missing[0]}, which is missing.')
        return 0
    try:
        own = manifest.read(app.files[program.manifest])
    except BuildError as error:
        problems.append(error.what)
        return 0
    # Two data files of the same name are renamed in an app; the manifest has the targets' names.
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


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints what `verify` returned."""
    for problem in result["problems"]:
        out.line(f"wrong: {problem}", "red")
    checked = result["checked"]
    text = (
        f"{result['what']}: {checked['files']} files, {checked['programs']} programs and "
        f"{checked['keys']} keys of data files"
    )
    if result["ok"]:
        out.line(f"{text} are what was built.", "green")
    else:
        out.line(f"{text}: {len(result['problems'])} problems.", "red")
