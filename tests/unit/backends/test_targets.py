"""Recipes for devices combine backends whose settings agree."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from etbuild import Options, RecipeContext
from executorch.export import ExportRecipe
from vendor_sdk import Sdk


def _made(recipe: str) -> Any:
    backend, _, name = recipe.partition(":")
    builder = getattr(importlib.import_module(f"{backend}_recipes"), name)
    return builder(RecipeContext(Options({}, "//:r"), "//:r"))


# As in //backends/targets.
@pytest.mark.parametrize(
    ("first", "partitioners"),
    [
        ("coreml:fp16", ["CoreMLPartitioner"]),
        ("coreml:fp32", ["CoreMLPartitioner"]),
        ("qualcomm:fp16", ["Partitioner"]),
        ("vulkan:fp16", ["GuardedPartitioner"]),
        ("vulkan:fp32", ["GuardedPartitioner"]),
    ],
)
def test_combined(
    first: str, partitioners: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first backend's partitioner is asked before XNNPACK's."""
    monkeypatch.setenv("EXECUTORCH_SDK_QUALCOMM", str(tmp_path))
    monkeypatch.setenv("QNN_SDK_ROOT", "")
    monkeypatch.setattr(Sdk, "preload", lambda sdk, name: None)
    combined = ExportRecipe.combine([_made(first), _made("xnnpack:fp32")])
    found = [type(p).__name__ for p in combined.lowering_recipe.partitioners]
    assert found[:1] == partitioners
    assert len(found) > 1
    assert all("Xnnpack" in name for name in found[1:])
