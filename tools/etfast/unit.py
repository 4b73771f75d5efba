"""A unit of the fast path: its replacements, and the check that upstream is as it expects."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@functools.cache
def _digest(source: Any) -> str:
    """The sha256 of a function's or a class's source: once, as workers have their children do."""
    return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()


def mismatch(module: str, name: str, sha256: str) -> str:
    """Compares upstream's source with what a unit was written for; empty: they are the same.

    Args:
      module: importable.
      name: qualified name of a function or class in the module; "": the whole module.
      sha256: the first hex digits of the digest of the source that the unit was written for.

    Example:

        mismatch("torch.fx.graph", "Graph.lint", "89ab")
        # "torch.fx.graph:Graph.lint has another source (sha256 0123456789ab)"
    """
    where = f"{module}:{name}" if name else module
    try:
        value: Any = importlib.import_module(module)
        for part in name.split(".") if name else ():
            # As it is stored: a class method or a property has its function inside.
            value = inspect.getattr_static(value, part)
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        digest = _digest(value)
    except ImportError:
        return f"{where} cannot be imported"
    except (AttributeError, OSError, TypeError):
        return f"{where} not found"
    if digest.startswith(sha256):
        return ""
    return f"{where} has another source (sha256 {digest[:12]})"


@dataclass(frozen=True)
class Unit:
    """One way to save time.

    Attributes:
      name: short, for reports and tests.
      relies_on: the sources that it replaces or whose behavior it assumes: by module and qualified
        name the first digits of the digest; see `mismatch`.
      install: returns a context in which it is installed.
      needs: modules without which there is nothing to speed up: the unit is left out silently while
        they aren't loaded.
    """

    name: str
    relies_on: Mapping[str, Mapping[str, str]]
    install: Callable[[], contextlib.AbstractContextManager[Any]]
    needs: tuple[str, ...] = ()

    def mismatches(self) -> list[str]:
        """Lists what of upstream differs from what the unit was written for."""
        return [
            text
            for module, digests in self.relies_on.items()
            for name, sha256 in digests.items()
            if (text := mismatch(module, name, sha256))
        ]
