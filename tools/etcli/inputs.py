"""Inputs of a method: the user's files, and filled tensors for the rest. Runs where torch is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild.errors import BuildError

# Upstream gives the numbers of scalar_type.fbs.
from etlink.tables import SCALAR_TYPES


def of_method(
    metadata: Any, files: Sequence[Path] = (), fill: str = "random", seed: int = 0
) -> list[torch.Tensor]:
    """Inputs in the method's order.

    Args:
      metadata: upstream's MethodMeta.
      files: .npy, or .safetensors with the names 0, 1, …; for the first inputs.
      fill: contents of the other inputs: "random", "ones" or "zeros"; integers are never random.
      seed: of random numbers.

    Raises:
      BuildError: a file cannot be read or does not fit, or an input is not a tensor.
    """
    given = [tensor for file in files for tensor in _read(file)]
    count = metadata.num_inputs()
    if len(given) > count:
        raise BuildError(f"--input: got {len(given)} tensors, expected at most {count}.")
    generator = torch.Generator().manual_seed(seed)
    inputs = []
    for number in range(count):
        try:
            info = metadata.input_tensor_meta(number)
        except (RuntimeError, TypeError):
            # A number or a text: its kind is all that the tables say.
            raise BuildError(
                f"Input {number} is not a tensor, which et cannot give.",
                "The runner (tools/runner) can.",
            ) from None
        shape = tuple(info.sizes())
        dtype = getattr(torch, SCALAR_TYPES[int(info.dtype())][0])
        if number < len(given):
            _check(given[number], shape, dtype, number)
            inputs.append(given[number])
        else:
            inputs.append(_filled(shape, dtype, fill, generator))
    return inputs


def _check(tensor: torch.Tensor, bounds: Sequence[int], dtype: torch.dtype, number: int) -> None:
    shape = tuple(tensor.shape)
    fits = len(shape) == len(bounds) and all(a <= b for a, b in zip(shape, bounds, strict=True))
    if tensor.dtype != dtype or not fits:
        raise BuildError(
            f"Input {number}: got {tensor.dtype} {list(shape)}, expected {dtype} of at most "
            f"{list(bounds)}.".replace("torch.", ""),
            "Give a file with such a tensor.",
        )


def _filled(
    shape: Sequence[int], dtype: torch.dtype, fill: str, generator: torch.Generator
) -> torch.Tensor:
    if fill == "zeros":
        return torch.zeros(shape, dtype=dtype)
    if fill == "ones" or not dtype.is_floating_point:
        return torch.ones(shape, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _read(path: Path) -> list[torch.Tensor]:
    import numpy
    import safetensors
    import safetensors.torch

    try:
        if path.suffix == ".npy":
            return [torch.from_numpy(numpy.load(path, allow_pickle=False))]
        if path.suffix == ".safetensors":
            tensors = safetensors.torch.load_file(path)
            return [tensors[name] for name in sorted(tensors, key=_numbers_first)]
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise BuildError(f"{path} cannot be read: {error}.", "Write it again.") from error
    raise BuildError(f"{path} is neither .npy nor .safetensors.", "Give one of those.")


def _numbers_first(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else 1 << 30, name)
