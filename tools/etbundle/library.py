"""A library of a runtime, with what it registers and needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbundle import scan


@dataclass(frozen=True)
class Library:
    """A library that an app may be linked with.

    Attributes:
        label: target that gives it.
        path: the file that is linked.
        deps: labels of libraries that it needs.
        operators: operators that it registers.
        backends: names under which it registers backends.
    """

    label: str
    path: str
    deps: tuple[str, ...]
    operators: frozenset[str]
    backends: frozenset[str]

    @property
    def static(self) -> bool:
        """Tells whether it becomes part of the binary."""
        return Path(self.path).suffix in (".a", ".o", ".lo")

    @property
    def registers(self) -> bool:
        """Tells whether it registers anything."""
        return bool(self.operators or self.backends)


def read(label: str, path: str, registered: Path, deps: tuple[str, ...]) -> Library:
    """A library with what EtScan lists."""
    names = scan.read(registered)
    return Library(label, path, deps, frozenset(names.operators), frozenset(names.backends))


def describe(library: Library, used: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Describes it for an app's manifest.

    Args:
        library: the library.
        used: "operators" and "backends" that the app's programs use.
    """
    return {
        "label": library.label,
        "file": Path(library.path).name,
        "operators": sorted(library.operators & used["operators"]),
        "backends": sorted(library.backends & used["backends"]),
    }
