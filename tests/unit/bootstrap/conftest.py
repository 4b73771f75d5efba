"""Makes tools/dev/bootstrap and the helpers beside this file importable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools/dev")]

from fake_machine import Machine  # noqa: E402  (needs the path set above)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without any Bazel."""
    return Machine(tmp_path)
