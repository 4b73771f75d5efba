"""Choosing the next token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etllm.chat.errors import LlmError


class Sampler:
    """Draws tokens from logits.

    Args:
      temperature: 0 takes the most likely token; 1 draws from the model's distribution; more
        flattens it.
      seed: of the random numbers; the same seed gives the same tokens. None: a new one each time.

    Raises:
      LlmError: the temperature is negative or no number.

    Example:

        Sampler(temperature=0.7, seed=1).choose(logits)
    """

    def __init__(self, temperature: float = 0.0, seed: int | None = None) -> None:
        if not temperature >= 0.0 or temperature == float("inf"):
            raise LlmError(f"temperature: expected a number of at least 0, found {temperature}.")
        self._temperature = temperature
        self._random = np.random.default_rng(seed)

    def choose(self, logits: npt.NDArray[np.floating]) -> int:
        """A token.

        Args:
          logits: one number for each token of the vocabulary, of any shape.

        Returns:
          Its number in the vocabulary. Of logits that are infinite the first one is taken,
          whatever the temperature.

        Raises:
          LlmError: a logit is not a number, or all are minus infinity.
        """
        values = np.asarray(logits, dtype=np.float64).reshape(-1)
        if np.isnan(values).any():
            raise LlmError(
                "The program's logits are not numbers (NaN).",
                "Try the program with another recipe, e.g. one in 32-bit floating point.",
            )
        largest = values.max()
        if largest == -np.inf:
            raise LlmError(
                "The program's logits rule out every token (all are minus infinity).",
                "Try the program with another recipe, e.g. one in 32-bit floating point.",
            )
        # A difference of infinities would be no number.
        if self._temperature == 0.0 or largest == np.inf:
            return int(values.argmax())
        # Less the maximum, so that no exponential overflows.
        weights = np.exp((values - largest) / self._temperature)
        bounds = np.cumsum(weights)
        drawn = self._random.random() * bounds[-1]
        return min(int(np.searchsorted(bounds, drawn, side="right")), len(bounds) - 1)
