"""A library of a runtime, with what it registers and needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbundle import scan

# Names up to this length may be numbers in code that the scan does not understand.
_SHORT = 15


@dataclass(frozen=True)
class Library:
    """A library that an app may be linked with.

    Attributes:
        label: target that gives it.
        path: the file that is linked.
        deps: labels of libraries that it needs.
        operators: operators that it registers.
        backends: names under which it registers backends.
        payload_operators: by backend, what its payloads may call.
    """

    label: str
    path: str
    deps: tuple[str, ...]
    operators: frozenset[str]
    backends: frozenset[str]
    payload_operators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def may_run(self, backend: str, name: str) -> bool:
        """Tells whether its backend may have an operator that a payload names.

        Where the scan read no names, or no short ones, it knows nothing of such an operator.
        """
        if backend not in self.backends:
            return False
        names = self.payload_operators.get(backend, ())
        is_readable = any(len(known) <= _SHORT for known in names) or len(name) > _SHORT
        return name in names or not names or not is_readable

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
    return Library(
        label,
        path,
        deps,
        frozenset(names.operators),
        frozenset(names.backends),
        names.payload_operators,
    )


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
