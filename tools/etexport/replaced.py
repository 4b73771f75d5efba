"""A function of upstream's, replaced for a while by one that watches it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Puts a function in the place of another one, and takes it away again.

    Args:
      owner: module or class that has it.
      name: its name there.
      function: what stands in for it.
    """
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)
