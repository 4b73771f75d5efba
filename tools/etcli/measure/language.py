"""Language models: how they are called, and how well they predict a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from etbuild import ModelSpec
from etlower.arrays import Array, to_torch
from etlower.cases import outputs_of
from etlower.inputs import deep_copy
from runner.runtime import Program


class Steps(Protocol):
    """A model that reads tokens one after the other.

    Attributes:
      most: tokens of one call, at most.
    """

    most: int

    def restart(self) -> None:
        """Forgets all tokens."""
        ...

    def put(self, tokens: Sequence[int], position: int) -> torch.Tensor:
        """Reads tokens; returns logits, (rows, vocabulary): of all of them, or of the last."""
        ...


class EagerSteps:
    """An eager model.

    Args:
      spec: the model.
      dtype: type that its weights are cast to; None: they keep theirs.
    """

    def __init__(self, spec: ModelSpec, dtype: torch.dtype | None = None) -> None:
        name = "forward" if "forward" in spec.methods else "decode"
        module = spec.methods[name].module
        if isinstance(module, torch.export.ExportedProgram):
            module = module.module()
        if dtype is not None:
            module = deep_copy(module).to(dtype)
        self._module = module
        self._fresh = module
        self.most = int(spec.constant_methods["get_max_seq_len"]) if name == "forward" else 1

    def restart(self) -> None:
        # Weights don't change; all else may be state.
        shared = {id(parameter): parameter for parameter in self._module.parameters()}
        self._fresh = deep_copy(self._module, shared)

    def put(self, tokens: Sequence[int], position: int) -> torch.Tensor:
        with torch.no_grad():
            out = self._fresh(torch.tensor([list(tokens)]), torch.tensor([position]))
        return _rows(out[0] if isinstance(out, (tuple, list)) else out)


class ProgramSteps:
    """A program.

    Args:
      program: opened.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._name = "forward" if "forward" in program.method_names else "decode"
        several = int(program.constant("get_max_seq_len")[0])
        self.most = several if self._name == "forward" else 1

    def restart(self) -> None:
        self._program.reset()

    def put(self, tokens: Sequence[int], position: int) -> torch.Tensor:
        inputs = [Array("int64", np.array(v)) for v in ([list(tokens)], [position])]
        return _rows(to_torch(outputs_of(self._program, self._name, inputs)[0]))


def _rows(logits: torch.Tensor) -> torch.Tensor:
    return logits.reshape(-1, logits.shape[-1]).float().clone()


@dataclass
class Score:
    """The quality of a model's predictions of tokens.

    Attributes:
      losses: negative logarithm of the probability of each token, the first one left out.
      best: the token that the model predicted instead of each.
    """

    losses: list[float] = field(default_factory=list)
    best: list[int] = field(default_factory=list)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean loss."""
        try:
            return math.exp(sum(self.losses) / len(self.losses))
        except OverflowError:
            return math.inf

    def agreement(self, other: Score) -> float:
        """Percentage of the positions at which both predict the same token."""
        same = sum(a == b for a, b in zip(self.best, other.best, strict=True))
        return 100 * same / len(self.best)


def score(
    steps: Steps, tokens: Sequence[int], window: int, advance: Callable[[int], None]
) -> Score:
    """Lets a model predict each token from those before it.

    Args:
      steps: the model.
      tokens: at least two.
      window: tokens that the model can look back on; a longer text is read in pieces of that.
      advance: is told how many tokens were read.
    """
    total = Score()
    for start in range(0, len(tokens) - 1, window - 1):
        piece = tokens[start : start + window]
        if len(piece) > 1:
            _read(steps, piece, total, advance)
    return total


def _read(
    steps: Steps, tokens: Sequence[int], total: Score, advance: Callable[[int], None]
) -> None:
    several = _rows_of(steps, tokens)
    steps.restart()
    position = 0
    while position < len(tokens) - 1:
        # The last token is only predicted.
        chunk = tokens[position : min(position + several, len(tokens) - 1)]
        logits = steps.put(chunk, position)
        next_tokens = torch.tensor(tokens[position + 1 : position + 1 + len(chunk)])
        losses = torch.nn.functional.cross_entropy(logits, next_tokens, reduction="none")
        total.losses += losses.tolist()
        total.best += logits.argmax(-1).tolist()
        position += len(chunk)
        advance(len(chunk))


def _rows_of(steps: Steps, tokens: Sequence[int]) -> int:
    """Tokens of a call that returns the logits of each: many models return the last one's only."""
    if steps.most < 2 or len(tokens) < 3:
        return 1
    steps.restart()
    return steps.most if len(steps.put(tokens[:2], 0)) == 2 else 1
