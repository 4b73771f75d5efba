"""The list of jars of a Bazel that lies elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.console import BootstrapError
from bootstrap.relocate import find_loader, rewrite_classpath

FINAL = Path("/cache/bazel")


def test_classpath() -> None:
    """Paths are moved, absent jars dropped, forgotten ones added, the version's jar is last."""
    text = "/usr/share/java/guava.jar\n/usr/share/java/gone.jar\n\n/usr/share/java/gson.jar\n"
    lines = rewrite_classpath(text, FINAL, lambda jar: "gone" not in jar).splitlines()
    assert lines == [
        "/cache/bazel/usr/share/java/guava.jar",
        "/cache/bazel/usr/share/java/gson.jar",
        "/cache/bazel/usr/share/java/perfmark-api.jar",
        "/cache/bazel/usr/share/bazel/bazelw-version.jar",
    ]


def test_classpath_that_forgets_nothing() -> None:
    """A jar that Debian adds one day is not there twice."""
    text = "/usr/share/java/perfmark-api.jar\n"
    lines = rewrite_classpath(text, FINAL, lambda jar: True).splitlines()
    assert lines.count("/cache/bazel/usr/share/java/perfmark-api.jar") == 1


def test_loader(tmp_path: Path) -> None:
    """On any processor; without one it is an error, not a traceback."""
    with pytest.raises(BootstrapError, match="no dynamic loader"):
        find_loader(tmp_path)
    loader = tmp_path / "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"
    loader.parent.mkdir(parents=True)
    loader.touch()
    assert find_loader(tmp_path) == loader
