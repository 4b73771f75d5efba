"""A language model's .pte on ExecuTorch's Python runtime."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

# Upstream's imports warn of their own internals; who talks with a model has no use for that.
logging.getLogger("torch").setLevel(logging.ERROR)
from executorch.runtime import Method, Runtime  # noqa: E402

from etllm.errors import LlmError  # noqa: E402


class PteProgram:
    """A program with `forward(tokens, input_pos)`, or with `prefill` and `decode` of that form.

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
        if "forward" in names:
            self._prefill = self._decode = self._method("forward")
        elif {"prefill", "decode"} <= names:
            self._prefill, self._decode = self._method("prefill"), self._method("decode")
        else:
            raise self._no_model('a method "forward", or "prefill" and "decode"')
        self.max_context_len = int(self._constant("get_max_context_len"))
        self.max_seq_len = int(self._constant("get_max_seq_len"))
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
        method = self._decode if len(tokens) == 1 else self._prefill
        inputs = (torch.tensor([list(tokens)]), torch.tensor([position]))
        try:
            return method.execute(inputs)[0].float().numpy().reshape(-1)
        except RuntimeError as error:
            raise LlmError(
                f"{self.path}: the program failed on {len(tokens)} tokens at position {position}: "
                f"{error}.",
            ) from None

    def _method(self, name: str) -> Method:
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
