"""Compares the outputs of two builds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from etcli.reproduce.build import Output
from etcli.reproduce.explain import explain


@dataclass(frozen=True)
class Difference:
    """An output that isn't the same in both builds.

    Attributes:
      label: of the target.
      name: path of the output under the execution root.
      reasons: what differs, a line each; the first is the most telling.
    """

    label: str
    name: str
    reasons: tuple[str, ...]


def compare(first: Mapping[str, Output], second: Mapping[str, Output]) -> list[Difference]:
    """Compares by sha256; explains what differs.

    Args:
      first: path under the execution root to the output, as `Build.run` returns.
      second: those of the other build.
    """
    found = []
    for name in sorted({*first, *second}):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            which = "second" if one is None else "first"
            label = (one or other).label  # type: ignore[union-attr]
            found.append(Difference(label, name, (f"only the {which} build has it",)))
        elif sha256(one.path) != sha256(other.path):
            found.append(Difference(one.label, name, tuple(explain(one.path, other.path))))
    return found


def sha256(path: Path) -> str:
    """Of a file; of a folder: of its files' names, modes and contents."""
    if path.is_dir():
        inner = hashlib.sha256()
        for file in sorted(p for p in path.rglob("*") if not p.is_dir()):
            runs = bool(file.stat().st_mode & 0o100)
            inner.update(f"{file.relative_to(path)}\0{runs}\0{sha256(file)}\n".encode())
        return inner.hexdigest()
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
