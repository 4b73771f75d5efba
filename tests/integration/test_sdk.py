"""A vendor's SDK in a user's workspace, with a fake SDK folder."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

pytestmark = pytest.mark.release

_LIBRARY = "lib/x86_64-linux-clang/libQnnHtp.so"


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    """The workspace; tests restore what they change."""
    shared.lay("tests/e2e/sdk")
    return shared


def test_selected(workspace: Workspace) -> None:
    """With an SDK, programs of its backend are analyzed; others fail with an error."""
    workspace.run("build", "--nobuild", "//:net_qualcomm", "//:net_phone")
    said = workspace.failed("--nobuild", "//:net_nxp")
    assert "which is not on PyPI but on NXP's own public package index" in said
    assert 'add executorch.backend_packages(name = "executorch_nxp", locks = ' in said


def test_changed(workspace: Workspace) -> None:
    """A running Bazel sees a file of the same size, and the copy before it again."""

    def stamp() -> str:
        workspace.run("build", "--nobuild", "//:net_qualcomm")
        (path,) = (workspace.base / "external").glob("*executorch_sdk_qualcomm/sdk.json")
        return path.read_text()

    file = workspace.folder / "sdks/qnn/README.txt"
    before, text = stamp(), file.read_text()
    file.write_text(text.swapcase())
    assert stamp() != before
    file.write_text(text)
    assert stamp() == before


def test_library_missing(workspace: Workspace) -> None:
    """A lowering finds the folder, and names the library that it lacks.

    tests/unit/backends has this message for each vendor.
    """
    said = workspace.failed("//:net_qualcomm")
    assert f"Qualcomm's AI Engine Direct SDK (QNN) has no {_LIBRARY}" in said
    assert "the folder has: README.txt" in said


def test_library_broken(workspace: Workspace) -> None:
    """A new file in the folder is used; one that is not a library gives an error."""
    library = workspace.folder / "sdks/qnn" / _LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_text("no library, but long enough for a header " * 9)
    try:
        said = workspace.failed("//:net_qualcomm")
        assert f"{_LIBRARY} of Qualcomm's AI Engine Direct SDK (QNN) cannot be loaded" in said
    finally:
        library.unlink()


def test_version(workspace: Workspace) -> None:
    """A version with other headers than the adaptor's is refused, with those that fit."""
    library = workspace.folder / "sdks/qnn" / _LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(bytes(99) + b"v2.50.40.260831140417" + bytes(99))
    try:
        said = workspace.failed("--nobuild", "//:net_qualcomm")
        assert "got 2.50.40, expected 2.30 or newer, before 2.47, or 2.49" in said
        library.write_bytes(bytes(99) + b"v2.49.40.260810104044" + bytes(99))
        workspace.run("build", "--nobuild", "//:net_qualcomm")
    finally:
        library.unlink()


def test_gone(workspace: Workspace) -> None:
    """The error names a path that does not exist."""
    workspace.replace("MODULE.bazel", "sdks/qnn", "sdks/gone")
    try:
        said = workspace.failed("--nobuild", "//:net_qualcomm")
        assert 'executorch.sdk(backend = "qualcomm", path = "' in said
        assert "sdks/gone" in said
        assert "folder not found" in said
    finally:
        workspace.replace("MODULE.bazel", "sdks/gone", "sdks/qnn")


def test_without(workspace: Workspace) -> None:
    """Without the tag the bundled libraries take its place."""
    kept = (workspace.folder / "MODULE.bazel").read_text()
    (workspace.folder / "MODULE.bazel").write_text(kept[: kept.index("executorch = use_extension")])
    try:
        workspace.run("build", "--nobuild", "//:net_qualcomm")
    finally:
        (workspace.folder / "MODULE.bazel").write_text(kept)
