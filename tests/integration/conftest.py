"""The user's workspace that the tests of this folder build."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbours lie beside the links.
sys.path.insert(0, str(Path(__file__).absolute().parent))

from nested import Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """One workspace for all tests; each puts back what it changes."""
    made = Workspace(tmp_path_factory.mktemp("one"))
    yield made
    made.close()
