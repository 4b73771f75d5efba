"""etllm.chat.session: what goes into the cache, and how answers end."""

from __future__ import annotations

import pytest
from etllm.chat.errors import ContextFull, LlmError
from etllm.chat.sampler import Sampler
from etllm.chat.session import Answer, Session, answer


def test_a_prompt_is_read_in_pieces(program):
    session = Session(program)
    session.read(list(range(20, 30)))
    assert program.calls == [
        ([20, 21, 22, 23], 0),
        ([24, 25, 26, 27], 4),
        ([28, 29], 8),
    ]
    assert (session.position, session.room) == (10, 22)


def test_what_the_cache_holds_is_not_read_again(program):
    session = Session(program)
    session.read([20, 21, 22, 23])
    program.calls.clear()
    assert session.continue_as([20, 21, 30, 31])[1] == 2
    assert program.calls == [([30, 31], 2)]
    assert session.continue_as([20, 21, 30, 31])[1] == 1
    assert program.calls[-1] == ([31], 3)


def test_too_long_a_prompt_leaves_the_session_as_it_was(program):
    session = Session(program)
    session.read([20, 21])
    for call in (session.read, session.continue_as):
        with pytest.raises(ContextFull, match=r"needs 3[35] tokens; the program holds 32"):
            call([7] * 33)
    assert session.position == 2
    assert len(program.calls) == 1


def test_a_prompt_may_fill_the_context(program):
    session = Session(program)
    session.read([7] * 32)
    assert session.room == 0
    with pytest.raises(ContextFull):
        session.read([7])


def test_no_tokens_are_an_error(program):
    with pytest.raises(LlmError, match="no tokens"):
        Session(program).read([])


def test_the_model_ends_its_answer(program):
    session, record = Session(program), Answer()
    assert list(answer(session, [20, 21], Sampler(), 50, record)) == [10, 11, 12]
    assert (record.reason, record.tokens) == ("end", [10, 11, 12])
    assert (record.prefill_tokens, record.decode_tokens) == (2, 3)
    assert program.calls == [([20, 21], 0), ([10], 2), ([11], 3), ([12], 4)]


def test_an_answer_has_at_most_as_many_tokens_as_asked_for(program):
    session, record = Session(program), Answer()
    assert list(answer(session, [20, 21], Sampler(), 2, record)) == [10, 11]
    assert record.reason == "length"
    # The last token isn't read: nothing follows from it.
    assert session.position == 3


def test_an_answer_ends_when_the_context_is_full(program):
    program.answers = [10] * 50
    session, record = Session(program), Answer()
    said = list(answer(session, [20] * 30, Sampler(), 50, record))
    assert (said, record.reason) == ([10, 10, 10], "context")
    assert session.room == 0


def test_tokens_come_one_by_one(program):
    calls = []
    for _ in answer(Session(program), [20, 21], Sampler(), 50, Answer()):
        calls.append(len(program.calls))
    assert calls == [1, 2, 3]


def test_the_speed_is_tokens_per_second():
    record = Answer(prefill_tokens=100, prefill_seconds=0.5, decode_tokens=30, decode_seconds=2.0)
    prefill, decode = record.speed().split("; ")
    assert prefill == "prefill: 100 tokens, 200.0 tokens per second"
    assert decode == "decode: 30 tokens, 15.0 tokens per second"
    assert Answer().speed().count("0 tokens, 0.0 tokens per second") == 2
