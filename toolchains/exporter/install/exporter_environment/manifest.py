"""environment.json: what an environment holds, without a path or a time in it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    """The files below a folder: their paths and hashes, in order, and their size together."""

    files: tuple[tuple[str, str], ...]
    size: int

    def digest(self) -> str:
        """A sha256 over paths and contents."""
        return digest([self])


def digest(trees: Iterable[Tree]) -> str:
    """A sha256 over the paths and contents of several folders."""
    total = hashlib.sha256()
    for path, found in sorted(file for tree in trees for file in tree.files):
        total.update(f"{path}\0{found}\n".encode())
    return total.hexdigest()


def _hash_files(paths: list[str]) -> list[str]:
    hashes = []
    for path in paths:
        with open(path, "rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashes


def read_tree(root: Path, folder: str, executor: Executor) -> Tree:
    """Hashes the files below root/folder; their paths begin with the folder's name."""
    paths = sorted(
        os.path.relpath(os.path.join(parent, file), root)
        for parent, _, files in os.walk(root / folder)
        for file in files
    )
    chunks = [[str(root / p) for p in paths[i : i + 256]] for i in range(0, len(paths), 256)]
    hashes = [found for part in executor.map(_hash_files, chunks) for found in part]
    size = sum(os.path.getsize(root / path) for path in paths)
    return Tree(tuple(zip(paths, hashes, strict=True)), size)


def stamp(folder: Path, tree: Tree) -> None:
    """Gives a folder a time of change that follows from its contents.

    Bazel knows a folder that is an input as a whole by this time alone. This way it changes when
    the contents do, and an environment that is fetched again lets the results of actions stand.
    """
    seconds = int(tree.digest()[:12], 16) % 1_000_000_000  # before September 2001
    os.utime(folder, (seconds, seconds))


def lock_digest(locks: Sequence[Path]) -> str:
    """The sha256 of the locks' bytes, one after the other; of a single lock, its own."""
    total = hashlib.sha256()
    for lock in locks:
        total.update(lock.read_bytes())
    return total.hexdigest()


def write(
    path: Path, *, python: str, versions: dict[str, str], lock_sha256: str, digest: str
) -> None:
    """Writes the file."""
    data = {
        "python": python,
        "platform": f"{sys.platform}_{platform.machine()}",
        "versions": dict(sorted(versions.items())),
        "lock_sha256": lock_sha256,
        "digest": digest,
    }
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
