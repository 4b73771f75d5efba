"""The emulator of MLX: which of upstream's operators it has."""

from __future__ import annotations

import re
from importlib import resources

import mlx_emulator

# Rare in models, or made for GPUs only.
_ELSEWHERE = {
    *("AsStridedNode", "GatherMmNode", "GatherNode"),
    *("GatherQmmNode", "IfNode", "MedianNode", "MetalKernelNode"),
    *("RandomBitsNode", "ScanNode", "ScatterAddNode", "UpdateAndAttendNode"),
}


def test_every_operator_of_the_schema_is_emulated_or_listed() -> None:
    folder = resources.files("executorch.backends") / "mlx/serialization"
    schema = (folder / "schema.fbs").read_text()
    (union,) = re.findall(r"union OpNode \{(.*?)\}", schema, re.DOTALL)
    names = set(re.findall(r"\b(\w+Node)\b", re.sub(r"//.*", "", union)))
    assert names == set(mlx_emulator.OPERATORS) | _ELSEWHERE
    assert not _ELSEWHERE & set(mlx_emulator.OPERATORS)
