"""Makes the exporter, its fast path, the recipes and the helpers beside this file importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
_ROOT = HERE.parents[2]
_PLACES = ("tools", "backends/xnnpack")
sys.path[:0] = [str(HERE), *(str(_ROOT / place) for place in _PLACES)]
