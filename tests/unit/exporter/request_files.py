"""Requests of the exporter, made without Bazel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from etlower import flags, sources


def request(**fields: Any) -> flags.Request:
    """A request for //m:program of the model //m:net, with the given fields."""
    values: dict[str, Any] = {
        "command": "lower",
        "label": "//m:program",
        "model_label": "//m:net",
        "output": Path("/nowhere/out"),
        "timings": None,
        "entry_point": "net:build",
        "sources": {},
        "roots": (),
        "data": {},
        "placeholders": {},
        "recipe_data": {},
        "arguments": {},
        "methods": (),
        "recipe": {},
        "quantize": "recipe",
        "trained_checkpoint": None,
        "training": "",
        "calibration": None,
        "emulated": False,
        "lowering": "fast",
        "program": None,
        "program_data": (),
        "expected": None,
        "inputs": None,
        "test_inputs": (),
        "preprocessing": {},
        "only_test_inputs": False,
        "text": None,
        "tokens": 256,
    }
    return flags.Request(**{**values, **fields})


def install(folder: Path, **files: str) -> Path:
    """Writes sources and puts them on the import path as the exporter does.

    Args:
      folder: an empty folder.
      **files: source text by module; "__" stands for the slash: models__llama,
        models____init__.

    Returns:
      The import tree.
    """
    tree = folder / "work" / "sources"
    result = {}
    for name, text in files.items():
        module = name.removesuffix("____init__")
        place = module.replace("__", "/") + ("/__init__.py" if module != name else ".py")
        file = folder / "workspace" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        result[f"_main/{place}"] = file
        sys.modules.pop(module.replace("__", "."), None)
    sources.install(tree, result, ("_main",))
    return tree
