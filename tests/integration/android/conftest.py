"""Makes the helpers beside the tests importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
sys.path.insert(0, str(Path(__file__).absolute().parent))
