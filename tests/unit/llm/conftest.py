"""A small tokenizer inside of a GGUF file."""

from __future__ import annotations

from typing import Any

import pytest

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
    from etllm.tokenizer.tokenizer_from_gguf import build_tokenizer

    return build_tokenizer(metadata, "tiny.gguf")
