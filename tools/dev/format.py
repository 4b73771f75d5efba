"""Formats this repository: Python with ruff, Starlark with buildifier.

`bazel run //tools/dev:format`; with `-- --check` it changes nothing and fails on what would change.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_HELP = "Run `bazel run //tools/dev:format`; what ruff cannot fix itself is yours to change."


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the formatters.

    Returns:
      0: all is formatted; 1: something is not, and ruff or buildifier say what.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--buildifier", type=Path, required=True, help="the program")
    parser.add_argument("--programs", type=Path, required=True, help="the folder of ruff")
    parser.add_argument("--workspace_file", type=Path, help="a link to MODULE.bazel")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    ruff, buildifier = options.programs.absolute() / "ruff", options.buildifier.absolute()
    commands = [
        [ruff, "check", "--no-cache", *([] if options.check else ["--fix"]), "."],
        [ruff, "format", "--no-cache", *(["--check"] if options.check else []), "."],
        [buildifier, f"-mode={'check' if options.check else 'fix'}", "-r", "."],
    ]
    workspace = _workspace(options.workspace_file)
    codes = [subprocess.run(command, cwd=workspace, check=False).returncode for command in commands]
    if not any(codes):
        return 0
    print(f"{workspace}: not formatted. {_HELP}", file=sys.stderr)
    return 1


def _workspace(workspace_file: Path | None) -> Path:
    if workspace_file:
        return workspace_file.resolve().parent
    return Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd()))


if __name__ == "__main__":
    sys.exit(main())
