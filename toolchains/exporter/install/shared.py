"""Shares installed packages between workspaces: a folder of the user's cache, by content.

An entry is what an install made, under a key of all that it depends on: locks, installer, Python,
machine. Files of an entry are hard links, so a further workspace takes no space and a few seconds.
They are read-only, and every install hashes what it linked: an entry that was changed is dropped.
An entry appears by a rename, whole or not at all. Where links are not possible (no home, another
file system), nothing is shared and nothing is copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from fetch import tags

# Parts of an environment that an entry has; the interpreter follows from the machine.
PARTS = ("site-packages", "lite", "bin")
_UNUSED_SECONDS = 30 * 24 * 3600
_HERE = Path(__file__).absolute().parent


def folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of entries; None where the user has no cache."""
    cache = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(environment.get("HOME", ""), ".cache")
    return Path(cache, "rules_executorch/environments") if os.path.isabs(cache) else None


def key(texts: Iterable[bytes]) -> str:
    """A hash of all that packages depend on: these texts, the installer, Python, the machine."""
    total = hashlib.sha256()
    sources = sorted(_HERE.glob("*.py"))
    # The first platform tags name the C library, by which wheels are chosen.
    machine = f"{sys.version} {sys.platform} {tags.platforms()[:2]}"
    rules = _HERE.parent / "locks/prune.toml"
    for text in (machine.encode(), *(path.read_bytes() for path in [*sources, rules]), *texts):
        total.update(len(text).to_bytes(8, "big") + text)
    return total.hexdigest()


def _link_tree(source: Path, target: Path) -> None:
    for parent, _, names in os.walk(source):
        there = target / os.path.relpath(parent, source)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            os.link(os.path.join(parent, name), there / name)


def _remove(entry: Path) -> None:
    """Removes an entry; nobody finds half of it."""
    with contextlib.suppress(OSError):
        gone = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".gone-"))
        entry.rename(gone / "entry")
        shutil.rmtree(gone, ignore_errors=True)


def restore(entry: Path, root: Path) -> bool:
    """Links an entry's parts into an environment; returns whether it was there."""
    try:
        for part in PARTS:
            if (entry / part).is_dir():
                _link_tree(entry / part, root / part)
        os.utime(entry)
    except OSError:
        forget(root)
        return False
    return (root / PARTS[0]).is_dir()


def forget(root: Path, entry: Path | None = None) -> None:
    """Removes what was linked, and an entry that has other contents than it should."""
    for part in PARTS:
        shutil.rmtree(root / part, ignore_errors=True)
    if entry is not None:
        _remove(entry)


def save(entry: Path, root: Path, description: Path) -> None:
    """Makes an entry of an environment and its description, if that takes no space."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _clean(entry.parent)
        new = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".new-"))
    except OSError:
        return
    try:
        for part in PARTS:
            if (root / part).is_dir():
                _link_tree(root / part, new / part)
        shutil.copyfile(description, new / description.name)
        for parent, _, names in os.walk(new):
            for name in names:
                path = os.path.join(parent, name)
                os.chmod(path, 0o555 if os.stat(path).st_mode & 0o111 else 0o444)
        new.chmod(0o755)
        new.rename(entry)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)


def _clean(cache: Path) -> None:
    """Removes what nobody used for a month, and what killed installs left."""
    for path in cache.iterdir():
        age = time.time() - path.stat().st_mtime
        if age > (_UNUSED_SECONDS / 30 if path.name.startswith(".") else _UNUSED_SECONDS):
            if path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)
            else:
                _remove(path)
