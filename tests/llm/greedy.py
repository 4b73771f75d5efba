"""Greedy answers of a language model's program in ExecuTorch's Python runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from executorch.runtime import Runtime


@dataclass(frozen=True)
class Answer:
    """An answer: its tokens, and why it ended ("end", "length" or "context", as in the runner)."""

    tokens: list[int]
    reason: str


class GreedyProgram:
    """A program that reads whole conversations, each as if it were the first one.

    Args:
      path: the .pte file.
      data: the .ptd file that it loads, or None.

    Attributes:
      context: tokens that the KV cache holds.
      most: most tokens of one call.
      ends: tokens that end an answer.
    """

    def __init__(self, path: Path, data: Path | None = None) -> None:
        program = Runtime.get().load_program(path, data_path=data)
        names = sorted(program.method_names)

        def constant(name: str) -> list:
            return list(program.load_method(name).execute(()))

        (self.context,) = constant("get_max_context_len")
        (self.most,) = constant("get_max_seq_len")
        if {"forward", "enable_dynamic_shape"} <= set(names):
            self.most = self.most if constant("enable_dynamic_shape") == [True] else 1
        self.ends = {int(token) for token in constant("get_eos_ids")}
        sizes = {name: int(m[1]) for name in names if (m := re.fullmatch(r"prefill_(\d+)", name))}
        if "decode" in names:
            sizes["decode"] = 1
        self._exact = {size: program.load_method(name) for name, size in sizes.items()}
        self._any = program.load_method("forward") if "forward" in names else None

    def answer(self, conversation: Sequence[int], most: int) -> Answer:
        """Reads a conversation and answers it with at most `most` tokens."""
        tokens, unread, position = [], list(conversation), 0
        while True:
            while unread:
                size = self._size(len(unread))
                method = self._any or self._exact[size]
                inputs = (torch.tensor([unread[:size]]), torch.tensor([position]))
                logits = method.execute(inputs)[0]
                unread, position = unread[size:], position + size
            token = int(logits.reshape(-1, logits.shape[-1])[-1].argmax())
            if token in self.ends:
                return Answer(tokens, "end")
            tokens.append(token)
            if len(tokens) == most:
                return Answer(tokens, "length")
            if position == self.context:
                return Answer(tokens, "context")
            unread = [token]

    def _size(self, left: int) -> int:
        """Returns how many of the tokens that are left one call reads."""
        if self._any:
            return min(left, self.most)
        return max(size for size in self._exact if size <= left)
