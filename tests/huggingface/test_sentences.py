"""MiniLM in the runner: from sentences to vectors, with the model's own tokenizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer

RUNNER = Path("tools/runner/runner").absolute()
FILES = Path("models/huggingface").absolute()
TOKENIZER = FILES / "minilm/tokenizer.json"
SENTENCES = [
    "A cat sleeps on the sofa.",
    "A kitten naps on the couch.",
    "Interest rates rose — by ½ %.",
]


def vector(folder: Path, *arguments: str | Path) -> np.ndarray:
    program = FILES / "minilm_xnnpack.pte"
    subprocess.run([RUNNER, "--program", program, "--output", folder, *arguments], check=True)
    return np.load(folder / "output_0.npy")[0]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_as_with_the_tokens_of_hugging_face(sentence: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_padding()
    encoding = tokenizer.encode(sentence)
    rows = (encoding.ids, encoding.attention_mask, encoding.type_ids)
    inputs = {f"input_{i}": np.array([row]) for i, row in enumerate(rows)}
    save_file(inputs, tmp_path / "inputs.safetensors")
    expected = vector(tmp_path / "expected", "--input", tmp_path / "inputs.safetensors")
    given = vector(tmp_path / "given", "--tokenizer", TOKENIZER, "--text", sentence)
    assert np.array_equal(given, expected)


def test_alike_sentences_are_close(tmp_path: Path) -> None:
    cat, kitten, rates = (
        vector(tmp_path / str(i), "--tokenizer", TOKENIZER, "--text", sentence)
        for i, sentence in enumerate(SENTENCES)
    )
    assert cat @ kitten > 0.5 > 0.2 > cat @ rates
