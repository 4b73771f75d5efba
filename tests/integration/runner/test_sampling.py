"""Reading of prompts and choice of tokens in the runner, on programs whose logits are known."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.integration.runner.counting import CONTEXT, VOCABULARY, Counting, write, write_tokenizer
from tests.integration.runner.runner_process import run


class Constant(nn.Module):
    """Predicts the same logits for any tokens."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        rest = [-math.inf] * (VOCABULARY - len(logits))
        self.register_buffer("logits", torch.tensor([logits + rest]))

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        return self.logits + (tokens.sum() + input_pos).to(torch.float32) * 0.0


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pte") / "counting.pte", Counting(), {"forward": None})


def result_of(program: Path, tokenizer: Path, count: int, most: int, *options: str):
    given = ["--program", program, "--tokenizer", tokenizer, "--raw_prompt", "--json"]
    return run(*given, "--prompt", "a" * count, "--max_new_tokens", str(most), *options)


def answer(program: Path, tokenizer: Path, count: int, most: int, *options: str) -> dict:
    """The answer to a prompt of so many tokens."""
    result = result_of(program, tokenizer, count, most, *options)
    assert result.code == 0, result.error
    return result.report["programs"][0]["answer"]


def test_a_prompt_is_read_in_pieces(counting: Path, tokenizer: Path) -> None:
    """A call of 4 tokens and one of 2; then each token is the number of those seen."""
    record = answer(counting, tokenizer, 6, 4)
    assert len(record["prompt_tokens"]) == 6
    assert (record["tokens"], record["reason"]) == ([6, 7, 8, 9], "length")


def test_methods_of_fixed_sizes_read_a_prompt_in_pieces(tokenizer: Path, tmp_path: Path) -> None:
    """Two calls of prefill_4 and one of decode; single tokens go to decode."""
    sizes = {"prefill_4": 4, "decode": 1}
    program = write(tmp_path / "methods.pte", Counting(), sizes)
    assert answer(program, tokenizer, 9, 2)["tokens"] == [9, 10]


def test_the_model_ends_its_answer(tokenizer: Path, counting: Path) -> None:
    record = answer(counting, tokenizer, 1, 8)
    assert (record["tokens"], record["reason"]) == ([1], "end")


def test_the_context_ends_an_answer(tokenizer: Path, counting: Path) -> None:
    """The last token needs no room: it is not read."""
    record = answer(counting, tokenizer, 14, 8)
    assert (record["tokens"], record["reason"]) == ([14, 15, 16], "context")
    record = answer(counting, tokenizer, CONTEXT, 8)
    assert (record["tokens"], record["reason"]) == ([16], "context")
    result = result_of(counting, tokenizer, CONTEXT + 1, 8)
    assert result.code == 1
    assert "17 tokens, and " in result.error and "holds 16 (get_max_context_len)" in result.error


@pytest.mark.release
def test_programs_that_are_no_language_models(tokenizer: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.pte", Counting(), {"encode": None})
    assert "other.pte is not a language model" in result_of(other, tokenizer, 1, 1).error
    bare = write(tmp_path / "bare.pte", Counting(), {"forward": None}, get_max_seq_len=0)
    assert "returns no number of tokens" in result_of(bare, tokenizer, 1, 1).error
    nothing = write(tmp_path / "nothing.pte", Counting(), {"forward": 0})
    assert (
        "expected tokens, int64 (1, n), and a position" in result_of(nothing, tokenizer, 1, 1).error
    )


def test_a_method_of_one_token_reads_a_prompt_one_by_one(tokenizer: Path, tmp_path: Path) -> None:
    """The metadata's calls don't matter."""
    single = write(tmp_path / "single.pte", Counting(), {"forward": 1})
    assert answer(single, tokenizer, 5, 2)["tokens"] == [5, 6]


def constant(tmp_path: Path, logits: list[float], context: int = CONTEXT) -> Path:
    sizes, metadata = {"forward": None}, {"get_max_context_len": context, "get_eos_ids": [250]}
    return write(tmp_path / "constant.pte", Constant(logits), sizes, **metadata)


def test_draws_follow_the_distribution(tokenizer: Path, tmp_path: Path) -> None:
    program = constant(tmp_path, [math.log(p) for p in (0.1, 0.6, 0.3)], context=5000)

    def shares(temperature: float, draws: int) -> list[float]:
        options = ("--temperature", str(temperature), "--seed", "3")
        counts = Counter(answer(program, tokenizer, 1, draws, *options)["tokens"])
        return [round(counts[token] / draws, 1) for token in range(3)]

    assert shares(1.0, 4000) == [0.1, 0.6, 0.3]
    assert shares(0.05, 200) == [0.0, 1.0, 0.0]
    assert shares(100.0, 4000) == [0.3, 0.3, 0.3]
    assert shares(0.0, 3) == [0.0, 1.0, 0.0]


def test_large_and_infinite_logits_do_not_overflow(tokenizer: Path, tmp_path: Path) -> None:
    program = constant(tmp_path, [-math.inf, 3e38, -math.inf])
    assert answer(program, tokenizer, 1, 3, "--temperature", "1")["tokens"] == [1, 1, 1]


@pytest.mark.few(2)
@pytest.mark.parametrize("temperature", ["0", "1e-6", "1", "50"])
def test_the_first_infinite_logit_is_taken(
    tokenizer: Path, tmp_path: Path, temperature: str
) -> None:
    program = constant(tmp_path, [5.0, math.inf, -math.inf, math.inf, 9.0])
    tokens = answer(program, tokenizer, 1, 10, "--temperature", temperature)["tokens"]
    assert tokens == [1] * 10


@pytest.mark.few(2)
@pytest.mark.parametrize("temperature", ["0", "1"])
@pytest.mark.parametrize(
    ("logits", "words"),
    [([0.0, math.nan], "are not numbers (NaN)"), ([-math.inf], "rule out every token")],
)
def test_logits_that_choose_no_token(
    tokenizer: Path, tmp_path: Path, logits: list[float], words: str, temperature: str
) -> None:
    program = constant(tmp_path, logits)
    result = result_of(program, tokenizer, 1, 1, "--temperature", temperature)
    assert result.code == 1 and words in result.error


@pytest.mark.parametrize("temperature", ["-0.1", "nan", "inf"])
def test_a_wrong_temperature_is_an_error(counting: Path, tokenizer: Path, temperature: str) -> None:
    result = result_of(counting, tokenizer, 1, 1, "--temperature", temperature)
    assert result.code == 1 and "--temperature" in result.error
