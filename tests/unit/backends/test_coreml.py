"""Inputs of parts for Core ML."""

from __future__ import annotations

from typing import Any

import coreml_recipes
import torch
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import operators, stages
from etlower.progress import Progress
from torch import nn


def test_pictures_whose_channels_lie_last() -> None:
    """coremltools takes rows: ExecuTorch puts the input in rows, the result back, and no more."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4), nn.MaxPool2d(2))
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    outside: list[str] = []

    def note(edge: Any) -> None:
        calls = edge.exported_program("forward").graph.nodes
        outside.extend(name for name in map(operators.name, calls) if name)

    stages.run(
        ModelSpec({"forward": Method(net.eval(), (x,))}),
        coreml_recipes.fp16(RecipeContext(Options({}))),
        Progress(),
        "//m:net",
        etrecord=False,
        watch=stages.Watch(lowered=note),
    )
    assert outside == ["dim_order_ops._to_dim_order_copy.default"] * 2
