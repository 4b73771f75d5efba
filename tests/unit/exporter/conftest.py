"""Makes the exporter, the linker, the recipes and the helpers beside this file importable."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
_ROOT = HERE.parents[2]
_PLACES = ("tools", "backends/xnnpack")
sys.path[:0] = [str(HERE), *(str(_ROOT / place) for place in _PLACES)]


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Undoes what a test does to the import path, the loaded modules and the current folder."""
    path, modules, folder = list(sys.path), set(sys.modules), os.getcwd()
    environment = dict(os.environ)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        # Only what the test itself imported from a folder of its own.
        if "pytest" in str(getattr(sys.modules[name], "__file__", "") or ""):
            del sys.modules[name]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    importlib.invalidate_caches()
