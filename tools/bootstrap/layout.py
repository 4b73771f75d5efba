"""Where things lie in the cache directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# Raise it whenever an assembled directory of an older bootstrap must not be used any more.
SCHEMA = 1


@dataclass(frozen=True)
class Layout:
    """Paths below the bootstrap's cache directory.

    Attributes:
        root: the cache directory, absolute.
    """

    root: Path

    @property
    def bazel(self) -> Path:
        """The assembled Bazel, with Debian's modules."""
        return self.root / f"bazel-{SCHEMA}-{os.uname().machine}"

    @property
    def modules(self) -> Path:
        """Debian's modules alone, for a Bazel that came from elsewhere."""
        return self.root / f"modules-{SCHEMA}"

    @property
    def bazelisk(self) -> Path:
        """A directory with the program `bazelisk`."""
        return self.root / f"bazelisk-{SCHEMA}-{os.uname().machine}"

    @property
    def stubs(self) -> Path:
        """Empty modules in place of those that Debian lacks and nobody loads."""
        return self.root / f"stubs-{SCHEMA}"

    @property
    def rc_files(self) -> Path:
        """Generated rc files, named by their content."""
        return self.root / "rc"

    @property
    def facts(self) -> Path:
        """What was found out about Bazels from elsewhere."""
        return self.root / "facts"

    @property
    def lock(self) -> Path:
        """Held by the one process that fills the cache."""
        return self.root / "lock"
