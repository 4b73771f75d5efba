"""Writes the presets for remote caches and executors into the workspace: `executorch.bazelrc`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_NAME = "executorch.bazelrc"

if __name__ == "__main__":
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    shutil.copyfile(Path(__file__).with_name("remote.bazelrc"), workspace / _NAME)
    print(f"Wrote {_NAME}. Import it in .bazelrc: import %workspace%/{_NAME}")
