"""Programs are measured where the target asks for it."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path("tests/llm")


def test_files() -> None:
    folder = HERE / "ernie_benchmark"
    names = [f"ernie_xnnpack.{suffix}" for suffix in ("html", "json", "txt")]
    assert sorted(path.name for path in folder.iterdir()) == names
    figures = json.loads((folder / names[1]).read_text())
    assert "tokens/s" in (folder / names[2]).read_text()
    assert figures
    assert (folder / names[0]).read_text().startswith("<!doctype html>")
