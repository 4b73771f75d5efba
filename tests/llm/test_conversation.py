"""Conversations with et_llm's programs: in the runner, against ExecuTorch's Python runtime."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import tiny_checkpoint
from tokenizers import Tokenizer

from tests.llm.greedy import GreedyProgram

HERE = Path("tests/llm").absolute()
TOKENIZER = HERE / "qwen_tokenizer" / "tokenizer.json"


@pytest.fixture(scope="module")
def gemma() -> GreedyProgram:
    return GreedyProgram(HERE / "gemma_xnnpack.pte")


def converse(command: list, lines: str, *options: str, code: int = 0) -> dict:
    """Runs a conversation and returns the runner's report."""
    result = subprocess.run(
        [*command, "--json", *options], capture_output=True, input=lines, text=True
    )
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)["programs"][0]


def test_metadata_are_the_checkpoints(gemma: GreedyProgram) -> None:
    assert (gemma.most, gemma.context) == (16, 64)
    assert gemma.ends == {256, 258}


def check_turns(program: GreedyProgram, answers: list[dict], most: int) -> None:
    """Each turn reads only what is new, and says what the whole conversation leads to."""
    conversation: list[int] = []
    for turn in answers:
        conversation += turn["prompt_tokens"]
        assert turn["tokens"] == program.answer(conversation, most).tokens
        conversation += turn["tokens"]


def test_turns_share_one_cache(gemma: GreedyProgram) -> None:
    """Prompts go to prefill_16 and decode."""
    report = converse([HERE / "gemma_chat"], "Hi\nx\n", "--max_new_tokens", "4")
    assert len(report["answers"]) == 2
    check_turns(gemma, report["answers"], 4)


def test_a_full_context_ends_an_answer_and_then_a_conversation(gemma: GreedyProgram) -> None:
    # Its few hundred random weights seldom end an answer by themselves.
    lines = "Hello\n" + "word " * 20
    report = converse([HERE / "gemma_chat"], lines, "--max_new_tokens", "100", code=1)
    (answer,) = report["answers"]
    prompt = answer["prompt_tokens"]
    expected = gemma.answer(prompt, 100)
    assert (answer["tokens"], answer["reason"]) == (expected.tokens, expected.reason)
    if expected.reason != "end":
        assert len(prompt) + len(answer["tokens"]) == 65  # The last one is said without being read.
    assert [turn["turn"] for turn in report["unanswered"]] == [2]
    assert "holds 64 (get_max_context_len)" in report["unanswered"][0]["error"]


@pytest.mark.parametrize(
    "command",
    [[HERE / "qwen_app" / "runner", "--program", "qwen_xnnpack", "--chat"], [HERE / "qwen_chat"]],
    ids=["app", "chat"],
)
def test_the_app_and_the_chat_answer_as_python_does(command: list) -> None:
    """qwen_app has the base and the adapter on one foundation; lines are turns."""
    answers = converse(command, "Hello\nMore\n", "--max_new_tokens", "5")["answers"]
    assert len(answers) == 2
    expected = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    first = answers[0]["prompt_tokens"]
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    assert tokenizer.decode(first, skip_special_tokens=False) == expected
    files = (HERE / "qwen_xnnpack.pte", HERE / "qwen_xnnpack_foundation.ptd")
    check_turns(GreedyProgram(*files), answers, 5)


def answer_of(command: list) -> list[int]:
    options = ["--json", "--max_new_tokens", "8"]
    result = subprocess.run([*command, *options], capture_output=True, check=True, text=True)
    return json.loads(result.stdout)["programs"][0]["answer"]["tokens"]


def test_the_adapter_changes_answers() -> None:
    app = [HERE / "qwen_app" / "runner", "--prompt", "Hello", "--program"]
    base, poet = (answer_of([*app, name]) for name in ("qwen_xnnpack", "qwen_poet_xnnpack"))
    assert base != poet
    # The chats have the files of their own program.
    assert answer_of([HERE / "qwen_chat", "Hello"]) == base
    assert answer_of([HERE / "qwen_poet_chat", "Hello"]) == poet


def test_et_transformers_answers_as_et_llm_does() -> None:
    """One checkpoint by both roads, in the runner and in upstream's own."""
    command, lines = [HERE / "gemma_transformers_chat"], "Hi\nx\n"
    report = converse(command, lines, "--max_new_tokens", "6")
    expected = converse([HERE / "gemma_chat"], lines, "--max_new_tokens", "6")
    assert report["answers"][0]["tokens"]
    for answer, other in zip(report["answers"], expected["answers"], strict=True):
        assert answer["tokens"] == other["tokens"]


@pytest.mark.parametrize(
    ("program", "tokenizer", "prompt"),
    [
        ("gemma_transformers", "gemma_transformers_tokenizer", "Hello"),
        ("ernie_xnnpack", "ernie_tokenizer", "G"),
    ],
)
def test_upstreams_runner_reads_programs_of_transformers(
    program: str, tokenizer: str, prompt: str
) -> None:
    """By et_transformers, and by et_llm for a family that it does not have.

    The prompts are those that random weights answer with text, not with some bytes of it.
    """
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

    path = HERE / f"{program}.pte"
    vocabulary = HERE / tokenizer / "tokenizer.json"
    runner = TextLLMRunner(str(path), str(vocabulary))
    said: list[str] = []
    config = GenerationConfig(max_new_tokens=6, temperature=0.0, echo=False)
    runner.generate(prompt, config, said.append)
    reader = Tokenizer.from_file(str(vocabulary))
    tokens = reader.encode(prompt, add_special_tokens=False).ids
    answer = GreedyProgram(path).answer(tokens, 6).tokens
    assert "".join(said).startswith(reader.decode(answer[:2]))


def numbered(folder: Path, count: int) -> Path:
    """A tokenizer that has "<0>", "<1>", … for tokens, so a text says which tokens it has."""
    tokenizer = tiny_checkpoint.tokenizer()
    model = {"type": "BPE", "vocab": {f"<{i}>": i for i in range(count)}, "merges": []}
    tokenizer["model"] |= model
    [like, *_] = tokenizer["added_tokens"]
    tokenizer["added_tokens"] = [
        like | {"id": i, "content": f"<{i}>", "special": False} for i in range(count)
    ]
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "data"), [("qwen", "qwen_xnnpack_foundation.ptd"), ("ernie", None)]
)
def test_upstreams_runner_gives_the_same_tokens(
    name: str, data: str | None, tmp_path: Path
) -> None:
    """To a short prompt, and to one that leaves little of the context."""
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

    files = [HERE / f"{name}_xnnpack.pte", numbered(tmp_path, 259)]
    files += [HERE / data] if data else []
    reasons = []
    for prompt in ("Hi", "x" * 38):
        [turn] = converse([HERE / f"{name}_chat"], prompt + "\n", "--max_new_tokens", "99")[
            "answers"
        ]
        reasons.append(turn["reason"])
        runner = TextLLMRunner(*map(str, files))
        said: list[str] = []
        config = GenerationConfig(max_new_tokens=len(turn["tokens"]), temperature=0.0, echo=False)
        runner.generate("".join(f"<{i}>" for i in turn["prompt_tokens"]), config, said.append)
        assert turn["tokens"]
        assert [int(piece.strip("<>")) for piece in said] == turn["tokens"]
    assert reasons[-1] == "context"


def test_a_chat_with_a_family_that_only_transformers_has() -> None:
    """The runner talks with it as with any other."""
    report = converse([HERE / "ernie_chat"], "Hi\nx\n", "--max_new_tokens", "6")
    check_turns(GreedyProgram(HERE / "ernie_xnnpack.pte"), report["answers"], 6)


def test_a_chat_with_a_program_that_keeps_states() -> None:
    """It reads token by token, and each conversation begins the states anew."""
    lines = "Hi\nx\n" + "y" * 60 + "\nx\n"
    report = converse([HERE / "mamba_transformers_chat"], lines, "--max_new_tokens", "6", code=1)
    program = GreedyProgram(HERE / "mamba_transformers.pte")
    first, second, third = report["answers"]
    check_turns(program, [first, second], 6)
    check_turns(program, [third], 6)
