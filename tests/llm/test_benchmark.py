"""Programs are measured where the target asks for it."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path("tests/llm")


def test_files() -> None:
    folder = HERE / "qwen_benchmark"
    suffixes = ("html", "json", "txt")
    programs = ("qwen_poet_xnnpack", "qwen_xnnpack")
    names = [f"{program}.{suffix}" for program in programs for suffix in suffixes]
    assert sorted(path.name for path in folder.iterdir()) == names
    figures = json.loads((folder / names[1]).read_text())
    assert "tokens/s" in (folder / names[2]).read_text()
    assert figures
    assert (folder / names[0]).read_text().startswith("<!doctype html>")
