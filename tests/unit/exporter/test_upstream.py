"""Scripts for upstream's maintainers still show what they are about, with the locked packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
FOLDER = Path(__file__).absolute().parents[3] / "docs/support/upstream"
# Bazel adds an __init__.py.
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - {"run", "__init__"})
# Their packages are layers that these tests do not have: //tests/operators:upstream_….
OTHER_LAYERS = ("mlx_", "openvino_", "qnn_", "tosa_", "vulkan_")


@pytest.mark.release
@pytest.mark.parametrize("script", [n for n in SCRIPTS if not n.startswith(OTHER_LAYERS)])
def test_it_shows_the_fault(script: str) -> None:
    """A script ends with 1 where the fault is gone: what we do about it can go, too."""
    # Safe paths, which the tests run with, leave out a script's folder.
    paths = os.pathsep.join([str(FOLDER), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, f"{script}.py"],
        cwd=FOLDER,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_has_a_line_of_the_index() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+)\]\(\1\.py\) \|", index, re.MULTILINE)) == SCRIPTS
