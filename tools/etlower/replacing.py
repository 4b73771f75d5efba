"""Replaced attributes of upstream's modules and classes, for a while or for good."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any


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


def replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    """Replaces a function of an upstream class, once in a process.

    Args:
      owner: the class.
      name: of its function; a static method stays one, and a class method.
      function: is called with upstream's function first, then with what that would get.

    Example:
      replace(Backend, "preprocess", lambda inner, program, specs: inner(cut(program), specs))
    """
    found = inspect.getattr_static(owner, name)
    inner = getattr(found, "__func__", found)
    if is_ours(inner):
        return

    @functools.wraps(inner)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return function(inner, *args, **kwargs)

    mark(replaced)
    kind = type(found) if isinstance(found, staticmethod | classmethod) else None
    setattr(owner, name, kind(replaced) if kind else replaced)


def mark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as the project's, which stays as it is from then on."""
    function.is_ours = True  # type: ignore[attr-defined]
    return function


def is_ours(function: Callable[..., Any]) -> bool:
    """Tells whether a function has the project's mark."""
    return bool(getattr(function, "is_ours", False))
