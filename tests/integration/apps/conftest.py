"""The workspace of apps, built once for the tests of apps and those of releases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nested import FOR_APPS, Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(
        tmp_path_factory.mktemp("apps") / "one", source="tests/e2e/apps", repositories=FOR_APPS
    )
    new_workspace.run("build", "//...")
    yield new_workspace
    new_workspace.close()
