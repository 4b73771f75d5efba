"""HQQ block by block gives the bits of torchao's function, whatever the weights."""

from __future__ import annotations

import importlib

import pytest
import torch
from etfast import hqq, path

_MODULE = importlib.import_module(hqq._MODULE)
_UPSTREAM = getattr(_MODULE, hqq._NAME)


def _weights(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(rows * columns)
    return (torch.randn(rows, columns, generator=numbers) * 0.05).to(dtype)


def _with(**values: float) -> torch.Tensor:
    """Weights some of which are special."""
    weights = _weights(16, 64)
    for row, value in enumerate(values.values()):
        weights[row, 3] = value
    return weights


_SPECIAL = {
    "zeros": torch.zeros(4, 64),
    "outlier": _with(large=1e4, tiny=1e-30),
    "infinite": _with(positive=float("inf"), negative=float("-inf")),
    "not a number": _with(nan=float("nan")),
    "subnormal": _weights(4, 64) * 1e-40,
    "same everywhere": torch.full((4, 64), 0.25),
}


def _same(weights: torch.Tensor, group: int, bounds: tuple[int, int] = (-8, 7)) -> None:
    data, scale = _UPSTREAM(weights, [1, group], *bounds)
    got_data, got_scale = hqq.quantize(weights, [1, group], *bounds)
    assert got_data.dtype == torch.int8 and torch.equal(got_data, data.to(torch.int8))
    assert got_scale.dtype == scale.dtype and got_scale.shape == scale.shape
    # Bits: what is not a number counts, too.
    assert got_scale.view(torch.uint8).equal(scale.view(torch.uint8))


@pytest.mark.parametrize("block", [1, 64, 1 << 18])
@pytest.mark.parametrize("name", _SPECIAL)
def test_special_weights(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where blocks end in the middle of a row, or have one group."""
    monkeypatch.setattr(hqq, "_BLOCK", block)
    _same(_SPECIAL[name], 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("rows", "columns", "group"), [(1, 16, 16), (300, 256, 32), (7, 96, 96)])
def test_shapes(rows: int, columns: int, group: int, dtype: torch.dtype) -> None:
    for bounds in ((-8, 7), (-2, 1), (-128, 127), (0, 3)):
        _same(_weights(rows, columns, dtype), group, bounds)


def test_upstream_stops_for_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that converges at once takes as many iterations as the slowest one."""
    monkeypatch.setattr(hqq, "_BLOCK", 32)
    slow = _weights(64, 512)
    calm = torch.full((1, 512), 0.5)
    calm[0, ::2] = 0.5 * (1 - 3e-6)
    _same(torch.cat([calm, slow]), 512)
    _same(torch.cat([slow, calm]), 32)


def test_weights_that_are_no_contiguous_matrix() -> None:
    _same(_weights(64, 96).t(), 32)
    _same(_weights(64, 96)[:, 32:], 32)


@pytest.mark.parametrize(
    ("weights", "group"),
    [
        (_weights(4, 64), 8),
        (_weights(4, 64).requires_grad_(), 32),
        (torch.empty(0, 64), 32),
    ],
)
def test_what_is_left_to_upstream(weights: torch.Tensor, group: int) -> None:
    assert not hqq._fits(weights, [1, group], -8, 7)


def test_in_a_lowering() -> None:
    """The function that torchao's tensors call."""
    with path.installed(path.units(["hqq"])):
        replaced = getattr(_MODULE, hqq._NAME)
        assert replaced is not _UPSTREAM
        data, scale = replaced(_weights(4, 64), [1, 32], -8, 7)
        with pytest.raises(AssertionError, match="must be divisible by group_size"):
            replaced(_weights(4, 64), [1, 24], -8, 7)
    expected, expected_scale = _UPSTREAM(_weights(4, 64), [1, 32], -8, 7)
    assert torch.equal(data, expected.to(torch.int8)) and torch.equal(scale, expected_scale)
