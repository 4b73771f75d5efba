"""The workspace of apps, built once for the tests of apps and those of releases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nested import FOR_APPS, Workspace

# Of the outer build, so that they aren't fetched once more: the compiler of the apps, too.
_REPOSITORIES = (*FOR_APPS, "executorch_libstdcxx_linux_x86_64", "executorch_zig")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(
        tmp_path_factory.mktemp("apps") / "one",
        source="tests/e2e/apps",
        repositories=_REPOSITORIES,
    )
    new_workspace.run("build", "//...")
    yield new_workspace
    new_workspace.close()
