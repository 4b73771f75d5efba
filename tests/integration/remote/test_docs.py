"""The page on CI agrees with the presets."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_page_has_the_presets() -> None:
    page = Path("docs/howto/ci.md").read_text()
    presets = Path("tools/dev/remote/remote.bazelrc").read_text()
    names = set(re.findall(r"^build:([\w-]+)", presets, re.MULTILINE))
    assert names == set(re.findall(r"^\| `--config=([\w-]+)` \|", page, re.MULTILINE))


def test_the_presets_share_results() -> None:
    """Those of a cache and of an executor differ in the server alone, so all keys are the same."""
    presets = Path("tools/dev/remote/remote.bazelrc").read_text()
    flags = {
        name: re.findall(rf"^build:{name} (--\S+?)(?:=grpc://\S+)?$", presets, re.MULTILINE)
        for name in ("remote", "remote-cache")
    }
    assert flags == {
        "remote": ["--config=remote-common", "--remote_executor"],
        "remote-cache": ["--config=remote-common", "--remote_cache"],
    }
