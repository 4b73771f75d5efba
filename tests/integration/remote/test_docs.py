"""The page on CI agrees with the presets."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_page_has_the_presets() -> None:
    page = Path("docs/howto/ci.md").read_text()
    presets = Path("tools/dev/remote/remote.bazelrc").read_text()
    names = set(re.findall(r"^build:([\w-]+)", presets, re.MULTILINE))
    assert names == set(re.findall(r"^\| `--config=([\w-]+)` \|", page, re.MULTILINE))
