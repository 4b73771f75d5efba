"""`et verify`: checks that an app, a release or a program is what was built."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle import apps
from etbundle.app import MANIFEST
from etlink import manifest
from etlink.container import sha256_of
from etlink.manifest import Manifest
from runner import runtime

from etcli import paths
from etcli.command import Outcome, add_data_option
from etcli.console import Printer, bar

# Of a release: they list or follow from its manifest.
_NOT_LISTED = ("SHA256SUMS", "changes.json")


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
        return _folder(path)
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
    known = manifest.read(own_manifest)
    files = [known.files[name] for p in known.programs.values() for name in (p.file, *p.data)]
    keys = sum(_check(known, name, own_manifest, path, data, problems) for name in known.programs)
    checked = {"files": len(files), "programs": 1, "keys": keys}
    checked["bytes"] = sum(file.size for file in files)
    return {"ok": not problems, "what": path.name, "checked": checked, "problems": problems}


def _folder(path: Path) -> dict[str, Any]:
    app = apps.read(path)
    for name in _NOT_LISTED:
        app.files.pop(name, None)
    known = app.manifest
    problems = _file_problems(app)
    for name in sorted(known.code() & app.files.keys()):
        if not os.access(app.files[name], os.X_OK):
            problems.append(f"{name} cannot be executed: it has lost its permissions.")
    keys = sum(_packed_program(app, name, problems) for name in known.programs)
    checked = {
        "files": len(known.files),
        "programs": len(known.programs),
        "keys": keys,
        "bytes": sum(p.stat().st_size for p in app.files.values()),
    }
    return {"ok": not problems, "what": known.label, "checked": checked, "problems": problems}


def _file_problems(app: apps.App) -> list[str]:
    """Problems of files on their own: missing, other bytes, not listed."""
    problems = []
    with bar("Verifying", sum(p.stat().st_size for p in app.files.values())) as advance:
        for name, expected in sorted(app.manifest.files.items()):
            if name not in app.files:
                problems.append(f"{name} is missing; {MANIFEST} lists it.")
                continue
            size = app.files[name].stat().st_size
            sha256 = sha256_of(app.files[name], advance)
            if size != expected.size:
                problems.append(f"{name}: size: got {size} bytes, expected {expected.size}.")
            elif sha256 != expected.sha256:
                problems.append(f"{name}: sha256: got {sha256}, expected {expected.sha256}.")
    extra = sorted(app.files.keys() - app.manifest.files.keys())
    return problems + [f"{name} is not listed in {MANIFEST}." for name in extra]


def _packed_program(app: apps.App, name: str, problems: list[str]) -> int:
    program = app.manifest.programs[name]
    if program.file not in app.manifest.files:
        # Of a release: it lies in an archive, whose hash has been compared.
        return 0
    missing = [path for path in (program.file, *program.data) if path not in app.files]
    if missing:
        problems.append(f'The program "{name}" needs {missing[0]}, which is missing.')
        return 0
    data = [app.files[path] for path in program.data]
    own_manifest = app.directory / MANIFEST
    return _check(app.manifest, name, own_manifest, app.files[program.file], data, problems)


def _check(
    known: Manifest,
    name: str,
    own_manifest: Path,
    path: Path,
    data: Sequence[Path],
    problems: list[str],
) -> int:
    """Adds what is wrong with a program; returns the keys that were compared."""
    try:
        runtime.verify(path, own_manifest, data)
    except BuildError as error:
        problems.append(error.what)
        return 0
    return sum(len(known.files[path].keys) for path in known.programs[name].data)


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
