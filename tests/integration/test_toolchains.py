"""A user's own C++ toolchain has priority over the bundled ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_PLATFORMS = "--platforms=@rules_executorch//toolchains/platforms:"


def test_own_toolchain(tmp_path: Path) -> None:
    """Only for its platform; the host keeps its compiler."""
    workspace = Workspace(tmp_path / "toolchains", source="tests/e2e/toolchains")
    try:
        chosen = workspace.folder / "bazel-bin/chosen.txt"
        workspace.build("//:chosen", _PLATFORMS + "linux_arm64")
        assert chosen.read_text() == "the user\n"
        workspace.build("//:chosen")
        assert chosen.read_text() == "somebody else\n"
        fetched = [path.name for path in (workspace.base / "external").iterdir()]
        assert not [name for name in fetched if "executorch_cc" in name or "zig" in name]
    finally:
        workspace.close()
