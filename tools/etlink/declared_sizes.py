"""Sizes of inputs as a model was exported with: what an app may give.

A program's tables have the largest size of each dimension alone, and the runtime compares numbers
of elements. So a manifest has the rest, and the interface (tools/runner/tensors/declared.cc)
compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etlink.json_file import FormError

_MAX_SIZE = 2**63 - 1
_MAX_FACTOR = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SizeRange:
    """Sizes of a dimension, or values of a whole number that is an input.

    Attributes:
      min: smallest size.
      max: largest size.
      symbol: what dimensions that depend on each other have in common; empty: none.
      times: the size is `times * symbol + plus`.
      plus: see there.
    """

    min: int
    max: int
    symbol: str = ""
    times: int = 1
    plus: int = 0


@dataclass(frozen=True, kw_only=True)
class InputSizes:
    """Sizes of an input with a dynamic dimension.

    Attributes:
      input: its number.
      name: in the model.
      sizes: of each dimension of a tensor; of a whole number one, that of its values.
    """

    input: int
    name: str
    sizes: tuple[SizeRange, ...]


def check(inputs: Sequence[InputSizes], where: str) -> None:
    """Fails for numbers that the interface cannot take.

    Args:
      inputs: as read.
      where: their place in the file, for messages.

    Raises:
      FormError: a number is too large or too small.
    """
    for number, given in enumerate(inputs):
        for dimension, size in enumerate(given.sizes):
            rows = [("min", size.min, 0, _MAX_SIZE), ("max", size.max, 0, _MAX_SIZE)]
            rows += [("times", size.times, 1, _MAX_FACTOR), ("plus", size.plus, 0, _MAX_FACTOR)]
            for name, value, least, most in rows:
                if not least <= value <= most:
                    raise FormError(
                        f"{where}[{number}].sizes[{dimension}].{name} is {value}, expected "
                        f"{least} to {most}"
                    )


def fits(inputs: Sequence[InputSizes], described: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether sizes are those of a method's inputs; a recipe's pass may change the latter.

    Args:
      inputs: with a dynamic dimension.
      described: all inputs of a method of a program (`tables.describe_methods`).
    """
    ranks = {n: len(d["shape"]) if d["kind"] == "tensor" else 1 for n, d in enumerate(described)}
    return all(ranks.get(given.input) == len(given.sizes) for given in inputs)
