"""A user's own C++ toolchain goes before those that come with these rules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_PLATFORMS = "--platforms=@rules_executorch//toolchains/platforms:"


def test_own_toolchain(tmp_path: Path) -> None:
    """For its platform; the host keeps its compiler where nobody asks for another."""
    workspace = Workspace(tmp_path / "toolchains", source="toolchains")
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
