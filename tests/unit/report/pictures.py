"""Takes pictures of pages for docs/images, light and dark.

    ./bazelw build //models:llama_xnnpack --output_groups=report
    ./bazelw run //models:llama_xnnpack.benchmark -- --html /tmp/benchmark.html
    ./bazelw run //tests/unit/report:pictures -- \\
        report=bazel-bin/models/llama_xnnpack.report.html benchmark=/tmp/benchmark.html

Each NAME=PAGE gives `docs/images/NAME_light.png` and `docs/images/NAME_dark.png`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chromium import Chromium, Window

_WIDTH, _HEIGHT = 1100, 1150


def main() -> None:
    """Takes the pictures of the pages on the command line."""
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    here = Path(os.environ["BUILD_WORKING_DIRECTORY"])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    browser = Chromium(cache / "rules_executorch" / "chromium")
    if len(sys.argv) < 2:
        sys.exit("usage: pictures NAME=PAGE.html …")
    for word in sys.argv[1:]:
        name, _, page = word.partition("=")
        for mode in ("light", "dark"):
            picture = workspace / "docs/images" / f"{name}_{mode}.png"
            window = Window(_WIDTH, _HEIGHT, dark=mode == "dark")
            browser.screenshot((here / page).resolve(strict=True), picture, window)
            print(picture.relative_to(workspace))


if __name__ == "__main__":
    main()
