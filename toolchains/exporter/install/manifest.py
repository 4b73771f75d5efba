"""environment.json: what an environment has, without a path or a time in it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

# The files below a folder: sha256 by path.
Tree = Mapping[str, str]


def digest(trees: Iterable[Tree]) -> str:
    """A sha256 over the paths and contents of several folders."""
    total = hashlib.sha256()
    for path, sha256 in sorted(item for tree in trees for item in tree.items()):
        total.update(f"{path}\0{sha256}\n".encode())
    return total.hexdigest()


def read_tree(root: Path, folder: str, executor: Executor) -> Tree:
    """Hashes the files below root/folder; their paths begin with the folder's name."""
    paths = sorted(
        os.path.relpath(os.path.join(parent, file), root)
        for parent, _, files in os.walk(root / folder)
        for file in files
    )
    return dict(zip(paths, executor.map(_sha256, (root / path for path in paths)), strict=True))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stamp(folder: Path, tree: Tree) -> None:
    """Gives a folder a time of change that follows from its contents.

    Bazel knows a folder that is an input as a whole by this time alone. It changes when the
    contents do, so results of actions survive fetching the environment again.
    """
    seconds = int(digest([tree])[:12], 16) % 1_000_000_000  # Before September 2001.
    os.utime(folder, (seconds, seconds))


def write(
    path: Path, python: str, versions: Mapping[str, str], locks: Sequence[Path], digest: str
) -> None:
    """Writes the file; `lock_sha256` is of the locks' bytes, one after the other."""
    data = {
        "python": python,
        "platform": f"{sys.platform}_{platform.machine()}",
        "versions": dict(sorted(versions.items())),
        "lock_sha256": hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest(),
        "digest": digest,
    }
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
