"""What a program remembers of a conversation, and how it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from etllm.chat.errors import ContextFull, LlmError
from etllm.chat.sampler import Sampler


class Program(Protocol):
    """A language model with a KV cache of its own.

    Attributes:
      max_context_len: tokens that the cache holds.
      max_seq_len: most tokens of one call.
      eos_ids: tokens that end an answer.
    """

    max_context_len: int
    max_seq_len: int
    eos_ids: frozenset[int]

    def run(self, tokens: Sequence[int], position: int) -> npt.NDArray[np.floating]:
        """Puts tokens into the cache from `position` on; logits of the last one."""
        ...


class Session:
    """One conversation on a program.

    A program has one cache, so it serves one session at a time.

    Args:
      program: the model.

    Example:

        session = Session(program)
        logits = session.read(tokenizer.encode("Once upon a time"))
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._held: list[int] = []

    @property
    def position(self) -> int:
        """How many tokens the cache holds."""
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more tokens fit."""
        return self.program.max_context_len - self.position

    def read(self, tokens: Sequence[int]) -> npt.NDArray[np.floating]:
        """Adds tokens, in calls of at most `max_seq_len` tokens.

        Args:
          tokens: at least one.

        Returns:
          Logits of the last one.

        Raises:
          ContextFull: they don't fit; the session is then as before.
          LlmError: there are none.
        """
        if not tokens:
            raise LlmError("There are no tokens to read.", "Give a prompt that isn't empty.")
        if len(tokens) > self.room:
            raise ContextFull(
                f"The conversation needs {self.position + len(tokens)} tokens; the program holds "
                f"{self.program.max_context_len} (get_max_context_len).",
                "Start a new conversation, or build the program with a larger max_seq_len.",
            )
        most = self.program.max_seq_len
        for start in range(0, len(tokens), most):
            piece = list(tokens[start : start + most])
            logits = self.program.run(piece, self.position)
            self._held += piece
        return logits

    def continue_as(self, tokens: Sequence[int]) -> tuple[npt.NDArray[np.floating], int]:
        """Makes the cache hold exactly these tokens and reads only those that it doesn't hold yet.

        Args:
          tokens: the whole conversation, at least one token.

        Returns:
          Logits of the last token, and how many tokens were read.

        Raises:
          ContextFull: they don't fit; the session is then as before.
          LlmError: there are none.
        """
        same = 0
        # The last token is read in any case: its logits are what is asked for.
        while same < min(len(self._held), len(tokens) - 1) and self._held[same] == tokens[same]:
            same += 1
        before, self._held = self._held, self._held[:same]
        try:
            return self.read(tokens[same:]), len(tokens) - same
        except LlmError:
            self._held = before
            raise


@dataclass
class Answer:
    """How an answer went.

    Attributes:
      reason: why it ended: "end" (the model ended it), "length" (as many tokens as were asked
        for), "context" (the cache is full), or "" while it goes on.
      tokens: what the model said, the token that ended it left out.
      prefill_tokens: tokens of the prompt that were read.
      prefill_seconds: what that took.
      decode_tokens: calls with one token.
      decode_seconds: what they took.
    """

    reason: str = ""
    tokens: list[int] = field(default_factory=list)
    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    decode_seconds: float = 0.0

    def speed(self) -> str:
        """One line with the tokens per second."""
        parts = []
        for name, count, seconds in (
            ("prefill", self.prefill_tokens, self.prefill_seconds),
            ("decode", self.decode_tokens, self.decode_seconds),
        ):
            rate = count / seconds if seconds > 0 else 0.0
            parts.append(f"{name}: {count} tokens, {rate:.1f} tokens per second")
        return "; ".join(parts)


def answer(
    session: Session,
    conversation: Sequence[int],
    sampler: Sampler,
    max_new_tokens: int,
    record: Answer,
) -> Iterator[int]:
    """Tokens of the answer to a conversation, one by one.

    Args:
      session: where it goes on.
      conversation: all of its tokens, what the session holds already included.
      sampler: chooses the tokens.
      max_new_tokens: after so many the answer ends.
      record: is filled in on the way; its `reason` is set when the last token is out.

    Returns:
      An iterator over tokens, without the one that ends the answer.

    Raises:
      ContextFull: the conversation itself doesn't fit.
      LlmError: the conversation is empty, or the program failed.
    """
    began = time.perf_counter()
    logits, record.prefill_tokens = session.continue_as(conversation)
    record.prefill_seconds = time.perf_counter() - began
    while len(record.tokens) < max_new_tokens:
        token = sampler.choose(logits)
        if token in session.program.eos_ids:
            record.reason = "end"
            return
        record.tokens.append(token)
        yield token
        if len(record.tokens) == max_new_tokens:
            break
        if session.room == 0:
            record.reason = "context"
            return
        began = time.perf_counter()
        logits = session.read([token])
        record.decode_seconds += time.perf_counter() - began
        record.decode_tokens += 1
    record.reason = "length"
