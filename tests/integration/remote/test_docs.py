"""The page on remote builds says what is."""

from __future__ import annotations

from pathlib import Path


def test_the_page_has_the_presets() -> None:
    """Users copy them from there."""
    page = Path("docs/remote.md").read_text()
    presets = Path("tools/dev/remote/remote.bazelrc").read_text()
    assert f"```\n{presets}```\n" in page
