"""Messages of the comparison of outputs, whatever type they have."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from etlower.arrays import of_torch
from etlower.outputs import Tolerance, constant_difference, difference

EXACT = Tolerance(1e-4, 1e-4)


def compared(got: Any, expected: Any, tolerance: Tolerance = EXACT, where: str = "x") -> str:
    """The difference of two outputs, which may be torch's."""
    values = [of_torch(v) if isinstance(v, torch.Tensor) else v for v in (got, expected)]
    return difference(*values, tolerance, where)


def test_equal_outputs() -> None:
    """Within tolerance, also with NaN and infinity in the same places."""
    expected = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    assert compared(expected.clone(), expected) == ""
    assert compared(torch.tensor([1.00005]), torch.tensor([1.0])) == ""
    assert compared(3, 3) == ""


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64"]
    + ["uint8", "uint16", "uint32", "uint64"],
)
def test_every_type(dtype: str) -> None:
    """One element of each differs by one."""
    expected = torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, dtype))
    got = torch.tensor([[0, 1], [0, 0]]).to(getattr(torch, dtype))
    assert compared(expected.clone(), expected) == ""
    text = "the largest difference is 1 at [1, 0]: got 0, expected 1; 1 of 4 elements"
    assert text in compared(got, expected)


def test_empty_tensors_and_numbers() -> None:
    """There is nothing in the first that could differ."""
    assert compared(torch.zeros(0, 3), torch.zeros(0, 3)) == ""
    assert compared(torch.tensor(2.0), torch.tensor(2.0)) == ""
    assert "at []: got 1, expected 2" in compared(torch.tensor(1.0), torch.tensor(2.0))
    assert compared(0.1 + 0.2, 0.3) == ""
    assert compared(None, None) == ""
    assert compared(torch.ones(2), 1.0) == "x: got [1.0, 1.0], expected 1.0"
    assert compared(None, 1.0) == "x: got None, expected 1.0"


def test_largest_difference_and_its_place() -> None:
    """The message has both, and how many are outside."""
    expected = torch.zeros(2, 3)
    got = expected.clone()
    got[1, 2], got[0, 1] = 0.5, 0.1
    text = compared(got, expected, where='method "forward", input 0, output 0')
    assert text.startswith('method "forward", input 0, output 0: the largest difference is 0.5')
    assert "at [1, 2]: got 0.5, expected 0; 2 of 6 elements" in text


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_differ(bad: float) -> None:
    """They differ from a number that only one side has."""
    assert "largest difference is inf" in compared(torch.tensor([bad]), torch.tensor([1.0]))
    assert "largest difference is inf" in compared(torch.tensor([1.0]), torch.tensor([bad]))


def test_kind_shape_and_type() -> None:
    """Before any number is compared."""
    one = torch.ones(2)
    assert "got (2,) torch.float32, expected (1,)" in compared(one, torch.ones(1))
    assert "expected (2,) torch.float64" in compared(one, one.double())
    assert "got a int, expected a tensor" in compared(3, one)
    assert "got 3, expected 4" in compared(3, 4)


def test_signal_to_noise() -> None:
    """The ratio alone, whatever the elements; it is infinitely bad where one is no number."""
    expected = torch.full((4,), 10.0)
    ratio = Tolerance(math.inf, 0.0, min_sqnr_db=30.0)
    assert compared(expected + 1, expected, ratio) == "x: the SQNR is 20.0 dB, expected 30 dB"
    assert compared(expected + 0.1, expected, ratio) == ""
    assert "the SQNR is -inf dB" in compared(expected * math.nan, expected, ratio)
    both = Tolerance(0.01, 0.0, min_sqnr_db=30.0)
    assert "outside of atol = 0.01, rtol = 0" in compared(expected + 0.1, expected, both)


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        ((2048,), (2048,), ""),
        ((2048,), (4096,), "c: got [2048], expected [4096]"),
        ((1, 2), (1,), "c: got [1, 2], expected [1]"),
        ((torch.ones(2),), (torch.ones(2),), ""),
        ((torch.ones(2),), (torch.ones(2).double(),), "c: got [[1.0, 1.0]], expected [[1.0, 1.0]]"),
        (("a",), ("b",), "c: got ['a'], expected ['b']"),
    ],
)
def test_constant_methods(got: tuple[Any, ...], expected: tuple[Any, ...], message: str) -> None:
    """They return the model's own numbers."""
    values = [
        [of_torch(v) if isinstance(v, torch.Tensor) else v for v in side]
        for side in (got, expected)
    ]
    assert constant_difference(*values, "c") == message
