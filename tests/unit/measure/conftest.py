"""Makes the tools importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbours lie beside the links.
HERE = Path(__file__).absolute().parent
_TOOLS = HERE.parents[2] / "tools"
_NAMES = (
    "etbuild",
    "linker",
    "exporter",
    "reproduce",
    "bundler",
    "cli",
    "report",
    "llm",
    "measure",
)
sys.path[:0] = [str(HERE), *(str(_TOOLS / name) for name in _NAMES)]
