"""Inputs of a method, from files or generated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from etbuild.errors import BuildError
from etlower import arrays
from etlower.arrays import Array


def of_method(
    described: Any, files: Sequence[Path] = (), fill: str = "random", seed: int = 0
) -> list[Array]:
    """Makes inputs in the method's order.

    Args:
      described: `executorch_app.Method`.
      files: .npy, or .safetensors with the names 0, 1, …; for the first inputs.
      fill: contents of the other inputs: "random", "ones" or "zeros"; integers are never random.
      seed: of random numbers.

    Raises:
      BuildError: a file cannot be read or does not fit, or an input is not a tensor.
    """
    given = [array for file in files for array in _read(file)]
    expected = described.inputs
    if len(given) > len(expected):
        raise BuildError(f"--input: got {len(given)} tensors, expected at most {len(expected)}.")
    random = np.random.default_rng(seed)
    inputs = []
    for number, value in enumerate(expected):
        if value.kind != "tensor":
            raise BuildError(
                f"Input {number} is not a tensor, which et cannot give.",
                "The runner (tools/runner) can.",
            )
        if number < len(given):
            _check(given[number], value.shape, value.dtype, number)
            inputs.append(given[number])
        else:
            inputs.append(_filled(value.shape, value.dtype, fill, random))
    return inputs


def _check(array: Array, bounds: Sequence[int], dtype: str, number: int) -> None:
    shape = array.shape
    fits = len(shape) == len(bounds) and all(a <= b for a, b in zip(shape, bounds, strict=True))
    if array.dtype != dtype or not fits:
        raise BuildError(
            f"Input {number}: got {array.dtype} {list(shape)}, expected {dtype} of at most "
            f"{list(bounds)}.",
            "Give a file with such a tensor.",
        )


def _filled(shape: Sequence[int], dtype: str, fill: str, random: np.random.Generator) -> Array:
    is_float = dtype.startswith(("float", "bfloat"))
    if fill == "zeros":
        numbers = np.zeros(shape)
    elif fill == "ones" or not is_float:
        numbers = np.ones(shape)
    else:
        numbers = random.standard_normal(shape)
    if dtype == "bfloat16":
        # The upper half of a float32's bits.
        return Array(dtype, (numbers.astype("<f4").view("<u4") >> 16).astype("<u2"))
    return Array(dtype, numbers.astype(arrays.held(dtype)))


def _read(path: Path) -> list[Array]:
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
            return [Array(array.dtype.name, np.ascontiguousarray(array).reshape(array.shape))]
    except (OSError, ValueError) as error:
        raise BuildError(f"{path} cannot be read: {error}.", "Write it again.") from error
    if path.suffix == ".safetensors":
        by_name, _ = arrays.read(path)
        return [by_name[name] for name in sorted(by_name, key=_numbers_first)]
    raise BuildError(f"{path} is neither .npy nor .safetensors.", "Give one of those.")


def _numbers_first(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else 1 << 30, name)
