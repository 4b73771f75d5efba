"""A unit of the fast path: what it replaces, and whether upstream is what it expects."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@functools.cache
def _digest(source: Any) -> str:
    """The sha256 of a function's or a class's source: once, as workers have their children do."""
    return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()


@dataclass(frozen=True)
class Upstream:
    """A function or class of upstream's whose source a unit relies on.

    Attributes:
      module: its module, importable.
      name: qualified name in the module; "": the whole module.
      sha256: the first hex digits of the digest of the source that the unit was written for.
    """

    module: str
    name: str
    sha256: str

    def mismatch(self) -> str:
        """What differs from what the unit was written for; empty: nothing.

        Example: `torch.fx.graph:Graph.lint has another source (sha256 0123456789ab)`.
        """
        where = f"{self.module}:{self.name}" if self.name else self.module
        try:
            value: Any = importlib.import_module(self.module)
            for part in self.name.split(".") if self.name else ():
                # As it is stored: a class method or a property has its function inside.
                value = inspect.getattr_static(value, part)
            value = getattr(value, "fget", None) or getattr(value, "__func__", value)
            digest = _digest(value)
        except ImportError:
            return f"{where} cannot be imported"
        except (AttributeError, OSError, TypeError):
            return f"{where} not found"
        if digest.startswith(self.sha256):
            return ""
        return f"{where} has another source (sha256 {digest[:12]})"


def sources(digests: Mapping[str, Mapping[str, str]]) -> tuple[Upstream, ...]:
    """What a unit relies on: by module and qualified name the digest of the source.

    Example:

        sources({"torch.fx.graph": {"Graph.create_node": "7e8353cfe5d2ae96"}})
    """
    return tuple(
        Upstream(module, name, sha256)
        for module, of_module in digests.items()
        for name, sha256 in of_module.items()
    )


@dataclass(frozen=True)
class Unit:
    """One way to save time.

    Attributes:
      name: short, for reports and tests.
      versions: of upstream's packages that it was checked with, for readers.
      relies_on: the sources that it replaces or whose behavior it assumes.
      install: returns a context in which it is installed.
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
def replaced(*replacements: tuple[Any, str, Any]) -> Iterator[None]:
    """Replaces attributes of modules and classes, and puts the originals back.

    An attribute that a class inherits is put onto the class itself, and removed again.

    Args:
      replacements: owner (module or class), the attribute's name, the replacement.

    Example:

        with replaced((torch, "load", load), (json, "dumps", dumps)):
            …
    """
    missing = object()
    originals = [(owner, name, vars(owner).get(name, missing)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(originals):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
