"""Makes the tools, and synthetic programs, importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "linker"), str(HERE.parents[2] / "tools")]
