"""Copies pages that were made from the sources over those that are checked in."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    for word in sys.argv[1:]:
        page, _, destination = word.partition("=")
        (workspace / destination).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, workspace / destination)
        print(destination)
