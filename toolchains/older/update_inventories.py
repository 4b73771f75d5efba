"""Writes inventories.json: `bazel run //toolchains/older:inventories.update`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def merged(files: Sequence[Path]) -> str:
    """The contents of inventories.json, of one file for each version."""
    versions = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(files)]
    return json.dumps({"versions": versions}, indent=1, sort_keys=True) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Writes the file into the source tree."""
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    output = workspace / "toolchains/older/inventories.json"
    output.write_text(merged([Path(argument) for argument in arguments]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
