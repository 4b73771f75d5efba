"""Quality of a model's predictions of a text."""

from __future__ import annotations

import math

import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etcli.measure import language
from etcli.measure.target import is_language_model
from ettune import texts

VOCABULARY = 7


class Cycle(torch.nn.Module):
    """Predicts the next number after each token, unless the token before was 0.

    Its buffer remembers all tokens, as a KV cache does.
    """

    def __init__(self, all_rows: bool) -> None:
        super().__init__()
        self.all_rows = all_rows
        self.sharpness = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("history", torch.zeros(32, dtype=torch.long))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        positions = position + torch.arange(tokens.shape[1])
        self.history[positions] = tokens[0]
        before = torch.where(positions > 0, self.history[positions - 1], 1)
        likeliest = torch.where(before == 0, tokens[0], (tokens[0] + 1) % VOCABULARY)
        logits = self.sharpness * torch.nn.functional.one_hot(likeliest, VOCABULARY)
        return logits[None] if self.all_rows else logits[-1:]


def steps(all_rows: bool, most: int = 8, dtype: torch.dtype | None = None) -> language.EagerSteps:
    inputs = (torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    constants = {"get_max_seq_len": most, "get_max_context_len": 32, "get_eos_ids": 0}
    spec = ModelSpec({"forward": Method(Cycle(all_rows), inputs)}, constants)
    return language.EagerSteps(spec, dtype)


def loss(right: bool) -> float:
    """Of a token that the model predicts, or of another one."""
    logits = [2.0] + [0.0] * (VOCABULARY - 1)
    return math.log(sum(math.exp(x) for x in logits)) - (2.0 if right else 0.0)


def nothing(_: int) -> None:
    """Shows no progress."""


@pytest.mark.parametrize(("all_rows", "most"), [(True, 8), (True, 3), (False, 8), (False, 1)])
def test_losses_are_those_of_each_token(all_rows: bool, most: int) -> None:
    tokens = [1, 2, 3, 0, 1, 1, 2, 4, 5, 6]
    #         -  ok ok no ok ok ok no ok ok: after 0, 1 the model expects 1 once more.
    score = language.score(steps(all_rows, most), tokens, 32, nothing)
    right = [True, True, False, True, True, True, False, True, True]
    assert score.losses == pytest.approx([loss(r) for r in right])
    mean = sum(loss(r) for r in right) / len(right)
    assert score.perplexity == pytest.approx(math.exp(mean))
    assert score.best[:3] == [2, 3, 4]


def test_a_long_text_is_read_in_windows() -> None:
    """Each token but the first is predicted once; a window knows nothing of those before it."""
    tokens = [n % VOCABULARY for n in range(30)]
    done = []
    score = language.score(steps(True), tokens, 6, done.append)
    assert len(score.losses) == 29 == sum(done)
    whole = language.score(steps(True), tokens, 32, nothing)
    # Only the whole text has the exception behind each 0.
    assert score.losses != whole.losses


def test_agreement() -> None:
    first = language.Score([1.0, 1.0], [3, 4])
    second = language.Score([1.0, 1.0], [3, 5])
    assert first.agreement(second) == 50.0
    assert language.Score([1e9], [1]).perplexity == math.inf


def test_a_cast_model_is_another_one() -> None:
    tokens = [1, 2, 3, 4]
    eager, cast = steps(True), steps(True, dtype=torch.bfloat16)
    first = language.score(eager, tokens, 32, nothing)
    second = language.score(cast, tokens, 32, nothing)
    assert second.losses == pytest.approx(first.losses, rel=1e-2)


def test_language_models_are_known_by_their_methods() -> None:
    needed = ("get_max_context_len", "get_max_seq_len", "get_eos_ids")
    assert is_language_model(needed, ["forward"])
    assert is_language_model(needed, ["prefill", "decode"])
    assert not is_language_model(needed[:2], ["forward"])
    assert not is_language_model(needed, ["prefill"])


def test_without_a_tokenizer() -> None:
    with pytest.raises(BuildError) as caught:
        texts.tokenizer_of(None, {})
    assert caught.value.hint == (
        "Give the model one in data, or the command one with --tokenizer tokenizer.json."
    )
