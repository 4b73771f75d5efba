"""A user's own C++ toolchain has priority over the bundled ones."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

pytestmark = pytest.mark.release

_PLATFORMS = "--platforms=@rules_executorch//toolchains/platforms:"


def test_own_toolchain(shared: Workspace) -> None:
    """Only for its platform; the host keeps its compiler."""
    shared.lay("tests/e2e/toolchains")
    chosen = shared.folder / "bazel-bin/chosen.txt"
    shared.build("//:chosen", _PLATFORMS + "linux_arm64")
    assert chosen.read_text() == "the user\n"
    shared.build("//:chosen")
    assert chosen.read_text() == "somebody else\n"
