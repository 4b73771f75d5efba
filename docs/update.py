"""Writes what pages have from elsewhere: the reference, and figures of the benchmarks.

`bazel run //docs:update`
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import figures
from etllm import variants


def main() -> None:
    """Copies the pages given as `generated=checked in`, and updates all pages' figures."""
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    for word in sys.argv[1:]:
        generated, _, page = word.partition("=")
        shutil.copyfile(generated, workspace / page)
        print(page)
    measured = figures.results(workspace / "tests/bench/results")
    copy = workspace / "tools/etllm/measured.json"
    copy.write_text(variants.copied(measured["speed"]), encoding="utf-8")
    for path in [*sorted(workspace.glob("*.md")), *sorted(workspace.glob("docs/**/*.md"))]:
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(workspace))
        if (updated := figures.updated(name, text, measured)) != text:
            path.write_text(updated, encoding="utf-8")
            print(name)


if __name__ == "__main__":
    main()
