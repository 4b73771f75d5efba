"""The page on remote builds agrees with the presets."""

from __future__ import annotations

from pathlib import Path


def test_the_page_has_the_presets() -> None:
    """Users copy the presets from the page."""
    page = Path("docs/remote.md").read_text()
    presets = Path("tools/dev/remote/remote.bazelrc").read_text()
    assert f"```\n{presets}```\n" in page
