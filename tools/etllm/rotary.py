"""Rotary position embeddings: the frequencies by which a model turns its queries and keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rotary:
    """The rotary embedding of a layer.

    Attributes:
      theta: base of the frequencies.
      share: part of a head's columns that is turned, counted from the first; 1.0: all.
      factors: what the frequencies are divided by, one for each pair of columns; empty: 1.
      scale: what cosines and sines are multiplied by.
      llama3: factor, low and high frequency factor and original context of Llama 3's scaling; None:
        another kind.
    """

    theta: float
    share: float = 1.0
    factors: Sequence[float] = ()
    scale: float = 1.0
    llama3: tuple[float, float, float, int] | None = None

    def frequencies(self, head: int) -> torch.Tensor:
        """Angle per position of each pair of columns: (turned columns / 2).

        In float32 from the start, as upstream and transformers have it, to get their numbers.

        Args:
          head: columns of a head.
        """
        turned = int(head * self.share)
        inverse = 1.0 / self.theta ** (torch.arange(0, turned, 2, device="cpu").float() / turned)
        if self.factors:
            inverse = inverse / torch.tensor(self.factors, dtype=torch.float32, device="cpu")
        return _llama3(inverse, *self.llama3) if self.llama3 else inverse

    def tables(self, head: int, positions: int, halves: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of all positions, each (positions, head), float32.

        Args:
          head: columns of a head; those that are not turned have cosine 1 and sine 0.
          positions: how many.
          halves: whether column i makes a pair with i + half, as in Hugging Face's checkpoints;
            else with its neighbor, as in Meta's.
        """
        angles = torch.outer(torch.arange(positions, device="cpu"), self.frequencies(head))
        angles = torch.cat((angles, angles), -1) if halves else angles.repeat_interleave(2, -1)
        rest = (positions, head - angles.shape[1])
        cos = torch.cat((angles.cos() * self.scale, torch.ones(rest, device="cpu")), -1)
        sin = torch.cat((angles.sin() * self.scale, torch.zeros(rest, device="cpu")), -1)
        return cos, sin


def half_turns(size: int, turned: int | None = None) -> torch.Tensor:
    """The matrix that turns the halves (a, b) of a row's first columns into (-b, a).

    Args:
      size: length of a row.
      turned: how many columns are turned, even; the others become 0. Default: all.

    Returns:
      (size, size), float32; `row @ half_turns(size)`.

    Example:

        half_turns(2)    # [[0, 1], [-1, 0]]
    """
    half = (size if turned is None else turned) // 2
    matrix = torch.zeros(size, size, device="cpu")
    first = torch.arange(half, device="cpu")
    matrix[first + half, first] = -1.0
    matrix[first, first + half] = 1.0
    return matrix


def longrope_scale(ratio: float, original: int) -> float:
    """Returns LongRoPE's factor of cosines and sines; ratio: longest context to original one."""
    return 1.0 if ratio <= 1.0 else math.sqrt(1.0 + math.log(ratio) / math.log(original))


def _llama3(
    frequencies: torch.Tensor, factor: float, low: float, high: float, context: int
) -> torch.Tensor:
    """Long waves are stretched by the factor, short ones kept, those between are mixed."""
    waves = 2 * math.pi / frequencies
    mix = ((context / waves - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * (mix + (1.0 - mix) / factor)
