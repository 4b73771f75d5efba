"""Makes tuning, the exporter, the recipes and a helper of the exporter's tests importable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
_HERE = Path(__file__).absolute().parent
_ROOT = _HERE.parents[2]
_PLACES = ("tools", "backends/xnnpack", "tests/unit/exporter")
sys.path[:0] = [str(_HERE), *(str(_ROOT / place) for place in _PLACES)]


@pytest.fixture
def fast_path() -> Iterator[None]:
    """Lowers as the exporter does by default, in tests that call functions under it."""
    from etfast import path

    with path.chosen("fast"):
        yield
