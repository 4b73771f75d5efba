"""Parts of outputs that are called weak; honest noise is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from etlower.arrays import Array
from etlower.dead_slices import Slices


def weak(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Lists what is said of a program's only output: got and expected for each input."""
    slices = Slices()
    for got, expected in pairs:
        arrays = [Array("float32", values.astype("<f4")) for values in (got, expected)]
        slices.add("forward", [arrays[0]], [arrays[1]])
    found = slices.weak()
    assert all((part.method, part.output) == ("forward", 0) for part in found)
    return [part.text for part in found]


def in_8_bits(values: np.ndarray, largest: float | None = None) -> np.ndarray:
    """One scale for all of a tensor: for values up to `largest`, if it is given."""
    scale = (largest or max(values.max(), 0.0) - min(values.min(), 0.0)) / 255
    return np.round(values / scale) * scale


def boxes(random: np.random.Generator, axis: int, first: bool, largest: float) -> np.ndarray:
    """Four rows up to `largest` beside five up to 1, at an axis of a tensor."""
    shape = [2, 36, 3]
    shape[axis] = 4
    places = random.uniform(0, largest, shape)
    shape[axis] = 5
    scores = random.uniform(0, 1, shape)
    return np.concatenate([scores, places] if first else [places, scores], axis)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("largest", [640.0, 20000.0])
@pytest.mark.parametrize("inputs", [1, 4])
def test_a_part_that_has_another_range(axis: int, first: bool, largest: float, inputs: int) -> None:
    random = np.random.default_rng(0)
    expected = [boxes(random, axis, first, largest) for _ in range(inputs)]
    (text,) = weak([(in_8_bits(values), values) for values in expected])
    rows = "0 to 4" if first else "4 to 8"
    assert text.startswith(
        f"dim {axis}, rows {rows}: constant 0, where the eager model's vary from"
    )


def test_scores_that_are_left_with_a_few_levels() -> None:
    """They aren't constant, but 30 dB below the rest."""
    random = np.random.default_rng(0)
    expected = np.concatenate([random.normal(0, 1000, (4, 99)), random.normal(0, 8, (2, 99))])
    (text,) = weak([(in_8_bits(expected), expected)])
    assert text.startswith("dim 0, rows 4 to 5: the SQNR is ")
    assert "that of the output 4" in text


def test_rows_with_one_element_for_each_input() -> None:
    """Four places and two scores, in a vector: together the inputs tell."""
    random = np.random.default_rng(1)
    tensors = [
        np.concatenate([random.uniform(0, 640, (1, 4)), random.uniform(0, 1, (1, 2))], 1)
        for _ in range(5)
    ]
    (text,) = weak([(in_8_bits(values, 640), values) for values in tensors])
    assert text.startswith("dim 1, rows 4 to 5: constant 0")


def test_a_long_vector() -> None:
    """Its rows have one element each, and neighbors are judged together."""
    random = np.random.default_rng(0)
    expected = np.concatenate([random.uniform(0, 640, 144), random.uniform(0, 1, 176)])
    (text,) = weak([(in_8_bits(expected), expected)])
    assert text.startswith("dim 0, rows 144 to 319: constant 0")


def test_all_of_it() -> None:
    expected = np.random.default_rng(0).normal(0, 1, (1, 4, 9))
    assert weak([(np.full_like(expected, 0.5), expected)])[0].startswith("all of it: constant 0.5")


def test_places_of_many_rows() -> None:
    """Each third row; a sentence has the first ones."""
    expected = np.random.default_rng(0).normal(0, 1, (30, 40))
    expected[::3] *= 0.001
    (text,) = weak([(in_8_bits(expected), expected)])
    assert text.startswith("dim 0, rows 0, 3, 6, 9, 12, 15, 18, 21 and 2 more: ")


@pytest.mark.parametrize("shape", [(1, 10), (4, 32), (1, 5, 7), (3, 16, 16), (200,), (1,), ()])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("inputs", [1, 3, 8])
def test_honest_noise(shape: tuple[int, ...], bits: int, inputs: int) -> None:
    """Of all sizes, also where channels differ by a factor of 5 and inputs resemble each other."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        base = random.normal(0, 1, shape)
        sizes = np.exp(random.uniform(-0.8, 0.8, shape[1:2]))[..., None] if len(shape) > 2 else 1.0
        tensors = [(base + random.normal(0, 0.05, shape)) * sizes for _ in range(inputs)]
        noise = 0.5**bits * 2
        pairs = [(t + random.normal(0, noise, shape), t) for t in tensors]
        assert weak(pairs) == []


def test_what_does_not_vary() -> None:
    """Zeros, constants, masks, rounding errors and what is not finite."""
    random = np.random.default_rng(0)
    expected = random.normal(0, 1, (8, 64))
    expected[1], expected[2] = 0.0, 5.0
    expected[3] = random.normal(0, 1e-7, 64)
    expected[4] = -np.inf
    got = expected + random.normal(0, 0.01, expected.shape)
    got[1:4] = np.round(got[1:4])
    assert weak([(got, expected)]) == []
    assert weak([(expected, expected)]) == []


def test_a_row_that_is_small_for_one_input_only() -> None:
    """The inputs count together."""
    random = np.random.default_rng(0)
    tensors = [random.normal(0, 1, (4, 32)) for _ in range(3)]
    tensors[1][2] *= 1e-3
    assert weak([(in_8_bits(values), values) for values in tensors]) == []
    assert weak([(in_8_bits(tensors[1]), tensors[1])])


def test_sizes_that_differ_between_inputs() -> None:
    """Rows are added up by number."""
    random = np.random.default_rng(0)
    tensors = [
        np.concatenate([random.uniform(0, 640, (n, 4)), random.uniform(0, 1, (n, 2))], 1)
        for n in (3, 9, 5)
    ]
    (text,) = weak([(in_8_bits(values, 640), values) for values in tensors])
    assert text.startswith("dim 1, rows 4 to 5: constant 0")
