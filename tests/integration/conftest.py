"""One workspace folder, Bazel server and exporter for all files of a target.

Starting a server, analyzing the rules and starting an exporter take longer than most of what the
tests build. Each file lays its workspace into the folder; what was fetched and compiled stays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import COMPILERS, EmptyWorkspace, Workspace


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The workspace, with the contents of tests/e2e/smoke at first."""
    # For programs that are run, also beside a built one, and for releases, and only then.
    repositories = [*COMPILERS, "executorch_cli", "executorch_sbom"]
    folder = tmp_path_factory.mktemp("shared") / "one"
    new_workspace = Workspace(folder, repositories=repositories)
    yield new_workspace
    new_workspace.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmptyWorkspace]:
    """For tests of repository rules; each file clears it."""
    new_workspace = EmptyWorkspace(tmp_path_factory.mktemp("empty"))
    yield new_workspace
    new_workspace.close()


@pytest.fixture(scope="session")
def apps(shared: Workspace) -> Workspace:
    """The workspace of apps, built once for the tests of apps and those of releases."""
    shared.lay("tests/e2e/apps")
    shared.run("build", "//...")
    return shared
