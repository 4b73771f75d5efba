"""Installs an environment: a private interpreter and pruned, precompiled packages.

Everything is made in a scratch folder of the output folder and moved out of it at the end,
environment.json last: an install that fails or is killed leaves no part of an environment.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import (
    bytecode,
    files,
    interpreter,
    lite,
    locks,
    manifest,
    packages,
    relocation,
    scripts,
    shared,
)
from .errors import InstallError

# What an environment consists of, below the output folder.
PARTS = ("python", "site-packages", "lite", "bin", "environment.json")


@dataclass
class Request:
    """The arguments of `install`; its `--help` describes them. A layer has base locks."""

    locks: list[Path] = field(default_factory=list)
    output: Path = Path()
    python: str = sys.executable
    lite: bool = False
    base_locks: list[Path] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    files: Path | None = None
    share: bool = False
    needed: bool = False
    purpose: str = ""


def needed(request: Request) -> list[dict[str, object]]:
    """The packages whose files this install takes; not those that another workspace installed."""
    requirements = _requirements(request)
    entry = _entry(request, requirements)
    listed = [] if entry and entry.is_dir() else [*requirements.values()]
    if not request.base_locks:
        listed += relocation.tools_requirements()
    return files.needed(listed)


def create(request: Request) -> None:
    """Installs the environment, or raises InstallError and leaves nothing."""
    output = request.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    existing = [part for part in PARTS if (output / part).exists()]
    if existing:
        text = f"it has an environment already: got {', '.join(existing)}. Name another folder."
        raise InstallError(f"{output}: {text}")
    try:
        with tempfile.TemporaryDirectory(dir=output, prefix=".installing-") as scratch:
            root = Path(scratch) / "environment"
            root.mkdir()
            with ThreadPoolExecutor() as executor:
                _create(request, root, executor)
            for part in PARTS:
                if (root / part).exists():
                    stamp = (root / part).stat().st_mtime_ns
                    (root / part).rename(output / part)
                    # Some file systems change it as they rename.
                    os.utime(output / part, ns=(stamp, stamp))
    except OSError as error:
        raise InstallError(
            f"{error.filename or output}: {error.strerror or error}. Check the path, permissions "
            "and free space there: about 4 GB are needed."
        ) from error


def _create(request: Request, root: Path, executor: Executor) -> None:
    start = time.monotonic()
    source = interpreter.inspect(request.python)
    downloaded = files.downloaded(request.files) if request.files else {}
    origin = packages.Origin(root.parent / "scratch", downloaded)
    requirements = _requirements(request)
    count = f"{len(requirements)} package{'' if len(requirements) == 1 else 's'}"
    _report(f"{request.purpose or f'Python {source.version}'}: {count}", start)
    entry = _entry(request, requirements)
    shared_trees, versions = _restore(entry, root, executor) if entry else ({}, {})
    roots = []
    if versions:
        _report(f"linked the packages that another workspace installed: {entry}", start)
    else:
        versions = _install_packages(request, origin, requirements, source.name, root)
        _report(f"installed {count}; kept in {entry or 'this repository'}", start)
        roots += [root / name for name in ("site-packages", "lite") if (root / name).is_dir()]
    if not request.base_locks:
        _report("copying the interpreter", start)
        interpreter.copy(source, root / "python", origin)
        roots.append(root / "python" / source.libdir / source.name)
    _report("compiling bytecode", start)
    bytecode.compile_trees(roots, executor, request.python, _every(10, "compiling bytecode", start))
    libraries = [f"python/{p.name}" for p in (root / "python").glob("*") if p.name != "bin"]
    trees = shared_trees | {
        folder: manifest.read_tree(root, folder, executor)
        for folder in (*libraries, *shared.PARTS)
        if (root / folder).is_dir() and folder not in shared_trees
    }
    for folder, tree in trees.items():
        manifest.stamp(root / folder, tree)
    digest = manifest.digest(tree for name, tree in trees.items() if name not in libraries)
    path = root / "environment.json"
    manifest.write(path, source.version, versions, request.locks, digest)
    if entry and not shared_trees:
        shared.save(entry, root, path)
    _report(f"environment ready: {sum(map(len, trees.values()))} files", start)


def _install_packages(
    request: Request,
    origin: packages.Origin,
    requirements: dict[str, locks.Requirement],
    python: str,
    root: Path,
) -> dict[str, str]:
    """Installs what workspaces share; returns the packages' versions."""
    site_packages = root / "site-packages"
    installed = packages.install(origin, requirements, site_packages)
    if request.scripts:
        python = "" if request.base_locks else python
        scripts.create(request.scripts, installed, root / "bin", python)
    if request.lite:
        lite.create(site_packages, root / "lite")
    return installed.versions


def _entry(request: Request, requirements: dict[str, locks.Requirement]) -> Path | None:
    """The entry of the user's cache for these packages; None: nothing is shared."""
    folder = shared.folder() if request.share else None
    if folder is None:
        return None
    settings = [request.lite, sorted(request.scripts), bool(request.base_locks)]
    texts = [json.dumps(settings), *(requirement.line() for requirement in requirements.values())]
    return folder / shared.key(text.encode() for text in texts)


def _restore(
    entry: Path, root: Path, executor: Executor
) -> tuple[dict[str, manifest.Tree], dict[str, str]]:
    """Links an entry and checks its contents; returns its trees and versions, or nothing."""
    if not shared.restore(entry, root):
        return {}, {}
    trees = {
        part: manifest.read_tree(root, part, executor)
        for part in shared.PARTS
        if (root / part).is_dir()
    }
    try:
        description = json.loads((entry / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        description = {}
    if description.get("digest") == manifest.digest(trees.values()):
        return trees, description["versions"]
    shared.forget(root, entry)
    return {}, {}


def _requirements(request: Request) -> dict[str, locks.Requirement]:
    """Lists the packages to install: by name, without what a layer's base has."""
    requirements = locks.load(request.locks)
    if request.base_locks:
        name = ", ".join(map(str, request.locks))
        requirements = locks.without(requirements, locks.load(request.base_locks), name)
    return requirements


def _every(seconds: float, text: str, start: float) -> Callable[[float], None]:
    """Reports a share of the work, at most once in so many seconds."""
    last = time.monotonic()

    def progress(share: float) -> None:
        nonlocal last
        if share < 1 and time.monotonic() - last >= seconds:
            last = time.monotonic()
            _report(f"{text}: {share:.0%}", start)

    return progress


def _report(text: str, start: float) -> None:
    print(f"{text} ({time.monotonic() - start:.0f} s)", file=sys.stderr, flush=True)
