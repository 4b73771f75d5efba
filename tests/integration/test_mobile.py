"""Builds a user's mobile apps that already have the runtime, with fakes of platforms' rules.

The fakes place files like the real rules, and build no apps.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_RULES = ("rules_android", "rules_apple")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(tmp_path_factory.mktemp("mobile") / "one", source="mobile")
    place = Path(os.path.realpath("tests/integration/mobile/rules_android/MODULE.bazel"))
    folder = place.parent.parent
    overrides = [f"--override_module={name}={folder / name}" for name in _RULES]
    new_workspace.run("build", *overrides, "//...")
    yield new_workspace
    new_workspace.close()


@pytest.mark.parametrize("platform", ["android", "ios"])
def test_files_in_the_app(workspace: Workspace, platform: str) -> None:
    placed = (workspace.folder / f"bazel-bin/{platform}/tasks.txt").read_text().splitlines()
    assert placed == [
        "assets/labels.txt",
        "data/foundation.ptd",
        "manifest.json",
        "programs/task_1.manifest.json",
        "programs/task_1.pte",
        "programs/task_2.manifest.json",
        "programs/task_2.pte",
    ]
    manifest = json.loads(
        (workspace.folder / "bazel-bin/task_files/assets/manifest.json").read_text()
    )
    assert sorted([*manifest["files"], "manifest.json"]) == placed
