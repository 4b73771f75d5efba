"""A language model's .pte on ExecuTorch's Python runtime."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

# Upstream's imports warn of their own internals; who talks with a model has no use for that.
logging.getLogger("torch").setLevel(logging.ERROR)
from executorch.runtime import Method, Runtime  # noqa: E402

from etllm.chat.errors import LlmError  # noqa: E402


class PteProgram:
    """A program with `forward(tokens, input_pos)`, or with `decode` and prefills of that form.

    Args:
      path: the .pte file.
      data: a .ptd file with weights that the program leaves out.

    Raises:
      LlmError: a file is missing, the runtime can't load the program, or it is no language model.

    Example:

        logits = PteProgram(Path("llama.pte")).run([1, 2, 3], position=0)
    """

    def __init__(self, path: Path, data: Path | None = None) -> None:
        self.path = path
        for file in filter(None, (path, data)):
            if not file.is_file():
                raise LlmError(f"{file}: no such file.", "Build the program, or correct the path.")
        try:
            self._program = Runtime.get().load_program(path, data_path=data)
        except RuntimeError as error:
            raise self._unloadable(error) from None
        names = self._program.method_names
        self.max_context_len = int(self._constant("get_max_context_len"))
        self.max_seq_len = int(self._constant("get_max_seq_len"))
        # Method to how many tokens it reads: at most, or exactly.
        self._readers: list[tuple[Method, int, bool]] = []
        if "forward" in names:
            self._readers = [(self._method("forward"), self.max_seq_len, False)]
        elif "decode" in names:
            exact = {f"prefill_{n}": n for n in _sizes(names)} | {"decode": 1}
            self._readers = [(self._method(name), count, True) for name, count in exact.items()]
            if "prefill" in names:
                self._readers.append((self._method("prefill"), self.max_seq_len, False))
            self._readers.sort(key=lambda reader: -reader[1])
        if not self._readers or (len(self._readers) == 1 and "decode" in names):
            raise self._no_model('a method "forward", or "decode" and "prefill" or "prefill_N"')
        ends = self._constant("get_eos_ids", several=True)
        self.eos_ids = frozenset(int(token) for token in ends)

    def run(self, tokens: Sequence[int], position: int) -> npt.NDArray[np.floating]:
        """Puts tokens into the KV cache.

        Args:
          tokens: 1 to `max_seq_len` tokens.
          position: where the first one goes.

        Returns:
          Logits of the last one, one number for each token of the vocabulary.

        Raises:
          LlmError: the runtime failed.
        """
        left = list(tokens)
        while left:
            method, count = self._reader(len(left))
            piece, left = left[:count], left[count:]
            inputs = (torch.tensor([piece]), torch.tensor([position]))
            try:
                logits = method.execute(inputs)[0].float().numpy()
            except RuntimeError as error:
                raise LlmError(
                    f"{self.path}: the program failed on {count} tokens at position {position}: "
                    f"{error}.",
                ) from None
            position += count
        # Those of the last token, where it gives those of all.
        return logits.reshape(-1, logits.shape[-1])[-1]

    def _reader(self, left: int) -> tuple[Method, int]:
        """The method that reads the most of so many tokens, and how many."""
        fitting = [r for r in self._readers if r[1] <= left or not r[2]]
        if left == 1:
            # A method of its own, where there is one.
            return fitting[-1][0], 1
        method, most, is_exact = fitting[0]
        return method, most if is_exact else left

    def _method(self, name: str) -> Method:
        try:
            return self._program.load_method(name)
        except RuntimeError:
            _load_operators()
        try:
            return self._program.load_method(name)
        except RuntimeError as error:
            raise self._unloadable(error) from None

    def _constant(self, name: str, several: bool = False) -> Any:
        if name not in self._program.method_names:
            raise self._no_model(f'a metadata method "{name}"')
        values = self._method(name).execute(())
        return values if several else values[0]

    def _unloadable(self, error: RuntimeError) -> LlmError:
        return LlmError(
            f"{self.path}: the runtime cannot load it: {error}.",
            "If its weights are separate, name their .ptd file with --data; if not, build it "
            "again, for a backend that this runtime has.",
        )

    def _no_model(self, wanted: str) -> LlmError:
        found = ", ".join(sorted(self._program.method_names))
        return LlmError(
            f"{self.path}: expected {wanted}; the program has: {found}.",
            "Give the .pte of a language model, e.g. that of models/llama.py.",
        )


def _sizes(names: Collection[str]) -> list[int]:
    """N of each method "prefill_N"."""
    found = (re.fullmatch(r"prefill_([1-9][0-9]{0,6})", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def _load_operators() -> None:
    """Loads upstream's operators for attention and for embeddings of 2 and 4 bits."""
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        import executorch.extension.llm.custom_ops.custom_ops
        import executorch.kernels.quantized  # noqa: F401
