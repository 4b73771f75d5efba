"""Programs to run, in a folder that a test may change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.runner.runner_process import PROGRAMS


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a program and its data into the test's own folder, and returns the program's path."""

    def copy(name: str) -> Path:
        for suffix in (".pte", ".ptd"):
            source = PROGRAMS / f"{name}{suffix}"
            if source.exists():
                target = tmp_path / source.name
                shutil.copyfile(source, target)
        return tmp_path / f"{name}.pte"

    return copy
