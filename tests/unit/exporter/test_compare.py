"""What the comparison of outputs says."""

from __future__ import annotations

import math

import pytest
import torch
from etexport.outputs import Tolerance, difference

EXACT = Tolerance(1e-4, 1e-4)


def test_equal_outputs() -> None:
    """Within tolerance, also with NaN and infinity in the same places."""
    expected = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    assert difference(expected.clone(), expected, EXACT, "here") == ""
    assert difference(torch.tensor([1.00005]), torch.tensor([1.0]), EXACT, "here") == ""
    assert difference(3, 3, EXACT, "here") == ""


def test_largest_difference_and_its_place() -> None:
    """The message has both, and how many are outside."""
    expected = torch.zeros(2, 3)
    got = expected.clone()
    got[1, 2], got[0, 1] = 0.5, 0.1
    text = difference(got, expected, EXACT, 'method "forward", input 0, output 0')
    assert text.startswith('method "forward", input 0, output 0: the largest difference is 0.5')
    assert "at [1, 2]: got 0.5, expected 0; 2 of 6 elements" in text


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_infinity_differ(bad: float) -> None:
    """Where only one side has them."""
    assert "largest difference is inf" in difference(
        torch.tensor([bad]), torch.tensor([1.0]), EXACT, "here"
    )


def test_kind_shape_and_type() -> None:
    """Before any number is compared."""
    one = torch.ones(2)
    assert "got (2,) torch.float32, expected (1,)" in difference(one, torch.ones(1), EXACT, "x")
    assert "expected (2,) torch.float64" in difference(one, one.double(), EXACT, "x")
    assert "got a int, expected a tensor" in difference(3, one, EXACT, "x")
    assert "got 3, expected 4" in difference(3, 4, EXACT, "x")


def test_signal_to_noise() -> None:
    """A wide tolerance, and a ratio that must hold all the same."""
    expected = torch.full((4,), 10.0)
    wide = Tolerance(5.0, 0.0, min_sqnr_db=30.0)
    assert "the SQNR is 20.0 dB, expected 30 dB" in difference(expected + 1, expected, wide, "x")
    assert difference(expected + 0.1, expected, wide, "x") == ""
