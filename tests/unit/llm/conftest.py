"""Makes tools/etllm/chat importable; a small tokenizer and a model that needs no runtime."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
REPOSITORY = Path(__file__).absolute().parents[3]
sys.path.insert(0, str(REPOSITORY / "tools"))

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _bytes_as_characters() -> list[str]:
    """GPT-2's 256 characters that stand for bytes, in the order of the bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


@pytest.fixture
def metadata() -> dict[str, Any]:
    """Metadata of a GGUF file whose tokenizer knows the bytes, "th", "the" and " the"."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*specials, *_bytes_as_characters(), "th", "the", "Ġthe", "12"]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(specials) + [1] * (len(tokens) - len(specials)),
        "tokenizer.ggml.merges": ["t h", "th e", "Ġ the", "1 2"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.chat_template": _TEMPLATE,
    }


@pytest.fixture
def tokenizer(metadata: dict[str, Any]) -> Any:
    """The tokenizer of `metadata`."""
    from tokenizer_from_gguf import build_tokenizer

    return build_tokenizer(metadata, "tiny.gguf")


@dataclass
class ScriptedProgram:
    """A model that says given tokens, whatever it is asked, and checks how it is called.

    Attributes:
      answers: what it says, one token a call, from the end of each prompt on.
      calls: (tokens, position) of each call.
    """

    answers: list[int] = field(default_factory=list)
    max_context_len: int = 32
    max_seq_len: int = 4
    eos_ids: frozenset[int] = frozenset({2})
    calls: list[tuple[list[int], int]] = field(default_factory=list)

    def run(self, tokens: Sequence[int], position: int) -> np.ndarray:
        """Logits that prefer the next of the answers."""
        assert 1 <= len(tokens) <= self.max_seq_len
        assert position + len(tokens) <= self.max_context_len
        self.calls.append((list(tokens), position))
        if self.answers and list(tokens) == self.answers[:1]:
            del self.answers[0]
        logits = np.zeros(300, dtype=np.float32)
        if self.answers:
            logits[self.answers[0]] = 1.0
        return logits


@pytest.fixture
def program() -> ScriptedProgram:
    """A program that says 10, 11, 12 and ends."""
    return ScriptedProgram([10, 11, 12, 2])
