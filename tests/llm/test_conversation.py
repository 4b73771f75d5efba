"""Conversations with et_llm's programs: in Python, and in the app's runner."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from etllm.chat.errors import ContextFull
from etllm.chat.program import PteProgram
from etllm.chat.sampler import Sampler
from etllm.chat.session import Answer, Session, answer
from etllm.chat.text import load_tokenizer

HERE = Path("tests/llm").absolute()
TOKENIZER = HERE / "qwen_tokenizer" / "tokenizer.json"
CONTEXT = 96


@pytest.fixture(scope="module")
def gemma() -> PteProgram:
    return PteProgram(HERE / "gemma_xnnpack.pte")


def said(session: Session, conversation: list[int], most: int = 6) -> tuple[list[int], Answer]:
    record = Answer()
    return list(answer(session, conversation, Sampler(), most, record)), record


def test_metadata_are_the_checkpoints(gemma: PteProgram) -> None:
    assert (gemma.max_seq_len, gemma.max_context_len) == (16, 64)
    assert gemma.eos_ids == frozenset({256, 258})


def test_turns_share_one_cache(gemma: PteProgram) -> None:
    session, conversation = Session(gemma), []
    for turn in ([1, 2, 3, 4, 5] * 4, [7, 8, 9]):
        conversation = conversation + turn
        tokens, record = said(session, conversation)
        assert record.prefill_tokens < len(turn) + 2
        alone, _ = said(Session(gemma), conversation)
        assert tokens == alone
        conversation = conversation + tokens


def test_a_full_context_ends_an_answer_and_then_a_conversation(gemma: PteProgram) -> None:
    # Its few hundred random weights seldom end an answer by themselves.
    session = Session(gemma)
    tokens, record = said(session, list(range(60)), most=100)
    if record.reason != "end":
        assert record.reason == "context"
        assert len(tokens) == 5  # four fit, and the last one is said without being read
    with pytest.raises(ContextFull, match=r"needs 65 tokens; the program holds 64"):
        session.continue_as(list(range(65)))


def test_the_app_answers_as_python_does() -> None:
    """qwen_app has the base and the adapter on one foundation; lines are turns."""
    app = HERE / "qwen_app"
    command = [app / "runner", "--program", "qwen_xnnpack", "--chat", "--json"]
    result = subprocess.run(
        [*command, "--max_new_tokens", "5"],
        capture_output=True,
        check=True,
        input="Hello\nMore\n",
        text=True,
    )
    answers = json.loads(result.stdout)["programs"][0]["answers"]
    assert len(answers) == 2
    tokenizer = load_tokenizer(TOKENIZER)
    wanted = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    first = answers[0]["prompt_tokens"]
    assert tokenizer.decode(first, skip_special_tokens=False) == wanted
    program = PteProgram(HERE / "qwen_xnnpack.pte", HERE / "qwen_xnnpack_foundation.ptd")
    conversation: list[int] = []
    for got in answers:
        conversation += got["prompt_tokens"]
        tokens, _ = said(Session(program), conversation, most=5)
        assert got["tokens"] == tokens
        conversation += tokens


def test_the_adapter_changes_answers() -> None:
    app = HERE / "qwen_app"
    found = []
    for program in ("qwen_xnnpack", "qwen_poet_xnnpack"):
        command = [app / "runner", "--program", program, "--json", "--max_new_tokens", "8"]
        result = subprocess.run(
            [*command, "--prompt", "Hello"], capture_output=True, check=True, text=True
        )
        found.append(json.loads(result.stdout)["programs"][0]["answer"]["tokens"])
    assert found[0] != found[1]
