"""A model of two methods over the same weights, with metadata: what upstream is compared on."""

from __future__ import annotations

from typing import Any

import torch
from etbuild import Method, ModelSpec
from torch import nn


class Net(nn.Module):
    """Linear layers, a convolution and a table."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(16, 64)
        self.first = nn.Linear(64, 128)
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.last = nn.Linear(128, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores, (tokens, 4, 8)."""
        hidden = torch.nn.functional.gelu(self.first(self.table(tokens)))
        return self.last(self.conv(hidden.unsqueeze(1)))


def parts() -> tuple[dict[str, Any], dict[str, tuple[Any, ...]], dict[str, Any], dict[str, Any]]:
    """Modules, example inputs and dynamic shapes by method, and constant methods."""
    net = Net().eval()
    tokens = {"prefill": torch.arange(5), "decode": torch.tensor([3])}
    return (
        {name: net for name in tokens},
        {name: (value,) for name, value in tokens.items()},
        {"prefill": {"tokens": {0: torch.export.Dim("n", min=2, max=16)}}, "decode": None},
        {"get_n": 16, "get_scale": 0.25, "get_name": "methods", "get_stops": [1, 2]},
    )


def build() -> ModelSpec:
    """The entry point."""
    modules, inputs, shapes, constants = parts()
    methods = {n: Method(m, inputs[n], dynamic_shapes=shapes[n]) for n, m in modules.items()}
    return ModelSpec(methods, constant_methods=constants)
