"""The emulator of MLX: which of upstream's operators it has."""

from __future__ import annotations

import re
from importlib import resources

import mlx.core as mx
import mlx_emulator
import numpy as np
import pytest

# Rare in models, or made for GPUs only.
_ELSEWHERE = {
    *("GatherMmNode", "GatherQmmNode", "IfNode", "MedianNode", "MetalKernelNode"),
    *("RandomBitsNode", "ScanNode", "UpdateAndAttendNode"),
}


def test_every_operator_of_the_schema_is_emulated_or_listed() -> None:
    folder = resources.files("executorch.backends") / "mlx/serialization"
    schema = (folder / "schema.fbs").read_text()
    (union,) = re.findall(r"union OpNode \{(.*?)\}", schema, re.DOTALL)
    names = set(re.findall(r"\b(\w+Node)\b", re.sub(r"//.*", "", union)))
    assert names == set(mlx_emulator.OPERATORS) | _ELSEWHERE
    assert not _ELSEWHERE & set(mlx_emulator.OPERATORS)


@pytest.mark.parametrize(
    ("sizes", "parts"), [([2], [2, 2, 1]), ([5], [5]), ([7], [5]), ([1, 4], [1, 4])]
)
def test_split(sizes: list[int], parts: list[int]) -> None:
    """One size is that of each part, as in torch.split."""
    x = mx.arange(10).reshape(2, 5)
    got = mlx_emulator.OPERATORS["SplitNode"]({"x": x, "sizes": sizes, "axis": 1})
    assert [part.shape for part in got] == [(2, n) for n in parts]


def test_windows() -> None:
    """A view of overlapping windows, as averages are computed over."""
    operands = {"x": mx.arange(6), "shape": [3, 2], "strides": [2, 1], "offset": 0}
    got = mlx_emulator.OPERATORS["AsStridedNode"](operands)
    assert got.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_elements_of_two_axes() -> None:
    """They come first, and have a dimension for each axis of what they are picked from."""
    x, indices = mx.arange(24).reshape(2, 3, 4), [mx.array([1, 0, 1]), mx.array([2, 2, -1])]
    operands = {"x": x, "indices": indices, "axes": [0, 1], "slice_sizes": [1, 1, 4]}
    got = mlx_emulator.OPERATORS["GatherNode"](operands)
    assert got.shape == (3, 1, 1, 4)
    assert got[:, 0, 0, 0].tolist() == [20, 8, 20]


def test_sums_by_index() -> None:
    operands = {
        "x": mx.zeros((2, 3)),
        "indices": mx.array([[0, 0, 2], [1, -1, 2]]),
        "updates": mx.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "axis": 1,
    }
    got = mlx_emulator.OPERATORS["ScatterAddNode"](operands)
    assert got.tolist() == [[3.0, 0.0, 3.0], [0.0, 4.0, 11.0]]


def test_numbers_stay_numbers() -> None:
    """NumPy makes rows of what has no dimension where it makes it contiguous."""
    assert mlx_emulator._to_mlx(np.float32(2.5), 6).shape == ()
