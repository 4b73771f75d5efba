"""An example whose dependencies `bazel vendor` put into a folder, built without a network.

The folder is moved: nothing in it may lead to the machine that made it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace, remove


@pytest.mark.release
def test_an_example(tmp_path: Path) -> None:
    """All repositories of these rules are in the folder; the second build fetches none."""
    one = Workspace(tmp_path / "one", source="examples/hello", compiled_once=False)
    # The exporter of the outer build is none that Bazel could vendor.
    one.overrides.clear()
    one.run("vendor", f"--vendor_dir={tmp_path}/vendored", "//...")
    one.close()
    vendored = tmp_path / "elsewhere/vendored"
    vendored.parent.mkdir()
    (tmp_path / "vendored").rename(vendored)
    (vendored / "bazel-external").unlink()
    names = {path.name.rpartition("~")[2].rpartition("+")[2] for path in vendored.iterdir()}
    assert {"executorch_exporter", "executorch_runtime_linux_x86_64", "executorch_zig"} <= names
    links = [path for path in vendored.rglob("*") if path.is_symlink()]
    assert [path for path in links if path.readlink().is_absolute()] == []
    two = Workspace(tmp_path / "two", source="examples/hello", compiled_once=False)
    two.overrides.clear()
    flags = [f"--vendor_dir={vendored}", "--repository_disable_download", "--repository_cache="]
    printed = two.run("test", *flags, "//...")
    assert "1 test passes" in printed, printed
    assert "out-of-date" not in printed
    external = two.base / "external"
    for name in ("executorch_exporter", "executorch_zig"):
        (repository,) = (
            path for path in external.iterdir() if path.name.endswith((f"~{name}", f"+{name}"))
        )
        assert repository.resolve().parent == vendored
    two.close()
    remove(vendored)
