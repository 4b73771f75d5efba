"""Replaced attributes of upstream's modules and classes, for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
