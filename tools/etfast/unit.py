"""A unit of the fast path: what it stands in for, and whether upstream is what it expects."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@functools.cache
def _digest(found: Any) -> str:
    """The sha256 of a function's or a class's source: once, as workers have their children do."""
    return hashlib.sha256(inspect.getsource(found).encode()).hexdigest()


@dataclass(frozen=True)
class Upstream:
    """A function or class of upstream's whose source a unit relies on.

    Attributes:
      module: its module, importable.
      name: qualified name in the module; "": the whole module.
      sha256: hex digests of the sources that the unit was checked with, one a version.
    """

    module: str
    name: str
    sha256: tuple[str, ...]

    def mismatch(self) -> str:
        """Why this is not what the unit was written for; empty: it is.

        Example: `torch.fx.graph:Graph.lint has another source (sha256 0123456789ab)`.
        """
        where = f"{self.module}:{self.name}" if self.name else self.module
        try:
            found: Any = importlib.import_module(self.module)
            for part in self.name.split(".") if self.name else ():
                # As it is stored: a class method or a property has its function inside.
                found = inspect.getattr_static(found, part)
            found = getattr(found, "fget", None) or getattr(found, "__func__", found)
            digest = _digest(found)
        except ImportError:
            return f"{where} can't be imported"
        except (AttributeError, OSError, TypeError):
            return f"{where} isn't there"
        if digest in self.sha256:
            return ""
        return f"{where} has another source (sha256 {digest[:12]})"


@dataclass(frozen=True)
class Unit:
    """One way to save time.

    Attributes:
      name: short, for reports and tests.
      versions: of upstream's packages that it was checked with, for readers.
      relies_on: the sources that it replaces or whose behavior it assumes.
      install: makes the context in which it is in place.
      needs: modules without which there is nothing to speed up: the unit is left out silently while
        they aren't loaded.
    """

    name: str
    versions: str
    relies_on: tuple[Upstream, ...]
    install: Callable[[], contextlib.AbstractContextManager[Any]]
    needs: tuple[str, ...] = ()

    def mismatches(self) -> list[str]:
        """What of upstream differs from what the unit was written for."""
        return [text for text in (part.mismatch() for part in self.relies_on) if text]


@contextlib.contextmanager
def replaced(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Puts functions in the place of others, and takes them away again.

    Args:
      places: owner (module or class), name there, what stands in for it.
    """
    missing = object()
    originals = [(owner, name, vars(owner).get(name, missing)) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(originals):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
