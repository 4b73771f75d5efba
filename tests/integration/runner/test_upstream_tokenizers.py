"""ExecuTorch's own tokenizers still give other tokens than Hugging Face's, or refuse their files.

These tests fail on the day that ExecuTorch's give the tokens of Hugging Face's. Then delete what
takes their place here: tools/runner/llm/tokenizer.h says which files that are.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytorch_tokenizers import CppHFTokenizer

from tests.integration.runner.test_tokenizer import KINDS, texts

# Added tokens that take the spaces beside them: no other kinds of texts differ.
STRIPPING = ("<|im_end|>", "<|pad|>")


@pytest.mark.parametrize("kind", ["gpt_2", "llama_3", "qwen_2"])
def test_spaces_beside_added_tokens(kind: str, tmp_path: Path) -> None:
    tokenizer, path = KINDS[kind](), tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    upstreams = CppHFTokenizer()
    upstreams.load(str(path))
    expected = {text: tokenizer.encode(text, add_special_tokens=False).ids for text in texts(1)}
    different = [
        text for text, ids in expected.items() if list(upstreams.encode(text, 0, 0)) != ids
    ]
    assert different, "ExecuTorch's tokenizer now gives the same tokens"
    assert all(any(token in text for token in STRIPPING) for text in different)


@pytest.mark.parametrize("kind", ["metaspace_always", "bert", "unigram", "precompiled"])
def test_kinds_that_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    KINDS[kind]().save(str(path))
    with pytest.raises(RuntimeError, match="Failed to load HF tokenizer"):
        CppHFTokenizer().load(str(path))
