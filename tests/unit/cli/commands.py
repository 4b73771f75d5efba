"""Types that the tests of `et` pass around."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """The printed text of a command, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Parses the output of --json."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Linked:
    """A program with a shared file, as the linker writes them."""

    program: Path
    shared: Path


Et = Callable[..., Result]
