"""--text: what a text becomes before an encoder reads it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tests.integration.runner.runner_process import PROGRAMS, run

ECHO = PROGRAMS / "echo.pte"
WORDS = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "sentence", "about", "##s", "cats"]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A small one, like BERT's."""
    words = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    made.add_special_tokens(["[MASK]"])
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


def read(folder: Path, *arguments: str | Path) -> list[list[int]]:
    """The program's inputs: tokens, mask, segments."""
    result = run("--program", ECHO, "--output", folder, *arguments)
    assert result.code == 0, result.error
    return [np.load(folder / f"output_{i}.npy")[0].tolist() for i in range(3)]


def test_a_text(tokenizer: Path, tmp_path: Path) -> None:
    given = read(tmp_path / "out", "--tokenizer", tokenizer, "--text", "A sentence about CATS")
    assert given == [[1, 4, 5, 6, 8, 2], [1] * 6, [0] * 6]


def test_a_pair(tokenizer: Path, tmp_path: Path) -> None:
    texts = ("--text", "sentences", "--text", "cats")
    given = read(tmp_path / "out", "--tokenizer", tokenizer, *texts)
    assert given == [[1, 5, 7, 2, 8, 2], [1] * 6, [0, 0, 0, 0, 1, 1]]


def test_special_tokens_in_a_text(tokenizer: Path, tmp_path: Path) -> None:
    text = ("--tokenizer", tokenizer, "--text", "a [MASK]")
    assert read(tmp_path / "said", *text)[0] == [1, 4, 0, 0, 0, 2]
    assert read(tmp_path / "parsed", *text, "--parse_special")[0] == [1, 4, 3, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--text", "a " * 15], "--text has 17 tokens, and "),
        (["--text", "a", "--text", "a", "--text", "a"], "got 3 texts, expected one, or two"),
        (["--text", "a", "--input", "x.npy"], "--text gives a program's inputs, and --input, too"),
        (["--text", "a", "--prompt", "b"], "--text is for runs with inputs, and --prompt has its"),
        (["--text", "a", "--raw_prompt"], "--raw_prompt needs a --prompt or --chat"),
        (["--repeat", "1"], "--tokenizer needs a --prompt, --chat or --text"),
    ],
)
def test_what_is_refused(tokenizer: Path, arguments: list[str], words: str) -> None:
    result = run("--program", ECHO, "--tokenizer", tokenizer, *arguments)
    assert result.code == 1
    assert words in result.error


def test_without_a_tokenizer() -> None:
    result = run("--program", ECHO, "--text", "a")
    assert "--text needs a tokenizer: name a tokenizer.json with --tokenizer" in result.error


def test_a_program_without_tokens(tokenizer: Path) -> None:
    result = run("--program", PROGRAMS / "embedded.pte", "--tokenizer", tokenizer, "--text", "a")
    assert "does not take tokens, a mask and segments" in result.error


def test_a_damaged_tokenizer(tokenizer: Path) -> None:
    values = json.loads(tokenizer.read_text())
    tokenizer.write_text(json.dumps(values | {"post_processor": {"type": "Other"}}))
    result = run("--program", ECHO, "--tokenizer", tokenizer, "--text", "a")
    assert ', post_processor is of type "Other", which the runner does not support' in result.error
