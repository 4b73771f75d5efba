"""Entry point of `python3 tools/bootstrap`, which `bazelw` starts when no decision holds."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bootstrap.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
