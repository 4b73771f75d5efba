"""etllm.chat.sampler: which token is drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from etllm.chat.errors import LlmError
from etllm.chat.sampler import Sampler

LOGITS = np.log(np.array([0.1, 0.6, 0.3], dtype=np.float32))


def test_zero_temperature_takes_the_most_likely():
    assert [Sampler().choose(LOGITS) for _ in range(3)] == [1, 1, 1]
    assert Sampler().choose(LOGITS.reshape(1, 3)) == 1


def test_draws_follow_the_distribution():
    sampler = Sampler(temperature=1.0, seed=3)
    counts = Counter(sampler.choose(LOGITS) for _ in range(4000))
    assert [round(counts[i] / 4000, 1) for i in range(3)] == [0.1, 0.6, 0.3]


def test_a_low_temperature_sharpens_and_a_high_one_flattens():
    cold, hot = Sampler(0.05, seed=3), Sampler(100.0, seed=3)
    assert {cold.choose(LOGITS) for _ in range(200)} == {1}
    assert min(Counter(hot.choose(LOGITS) for _ in range(3000)).values()) > 900


def test_a_seed_fixes_the_draws():
    def draws(seed: int) -> list[int]:
        sampler = Sampler(1.0, seed)
        return [sampler.choose(LOGITS) for _ in range(50)]

    assert draws(1) == draws(1) != draws(2)


def test_large_and_infinite_logits_do_not_overflow():
    logits = np.array([-np.inf, 3e38, -np.inf], dtype=np.float32)
    assert Sampler(1.0, seed=0).choose(logits) == 1


def test_logits_that_are_no_numbers_are_an_error():
    with pytest.raises(LlmError, match="not numbers"):
        Sampler().choose(np.array([0.0, np.nan]))


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf")])
def test_a_wrong_temperature_is_an_error(temperature):
    with pytest.raises(LlmError, match="temperature: expected"):
        Sampler(temperature)


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1.0, 50.0])
def test_the_first_infinite_logit_is_taken(temperature):
    logits = np.array([5.0, np.inf, -np.inf, np.inf, 9.0])
    assert {Sampler(temperature, seed).choose(logits) for seed in range(20)} == {1}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_rule_out_every_token_are_an_error(temperature):
    with pytest.raises(LlmError, match="rule out every token"):
        Sampler(temperature).choose(np.full(4, -np.inf))
