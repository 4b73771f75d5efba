"""chat: conversations on a program that needs no runtime."""

from __future__ import annotations

import io

import pytest
from chat import Chat, main
from etllm.chat.errors import ContextFull
from etllm.chat.sampler import Sampler
from etllm.chat.text import ChatTemplate


@pytest.fixture
def template(metadata):
    """The form of a conversation."""
    return ChatTemplate({"chat_template": metadata["tokenizer.chat_template"]})


@pytest.fixture
def chat(program, tokenizer, template):
    """A chat whose model answers "the 🎉"."""
    program.answers = [*tokenizer.encode("the 🎉").ids, 2]
    program.max_context_len = 200
    return Chat(program, tokenizer, template, Sampler(), 50)


def answers(printed: str) -> list[str]:
    """What was said, without the lines of speed."""
    return [line for line in printed.splitlines() if not line.startswith("prefill: ")]


def test_the_answer_and_then_the_speed(chat, capsys):
    chat.say("Hi")
    shown = capsys.readouterr()
    said, speed = shown.out.splitlines()
    assert said == "the 🎉"
    assert speed.startswith("prefill: ")
    assert speed.endswith(" tokens per second")
    assert shown.err == ""


def test_each_piece_is_printed_as_it_comes(chat, program, monkeypatch):
    flushed = []

    class Screen(io.StringIO):
        def flush(self):
            flushed.append((self.getvalue(), len(program.calls)))

    monkeypatch.setattr("sys.stdout", Screen())
    chat.say("Hi")
    texts = [text for text, _ in flushed]
    assert texts[0] == "the"
    assert texts[-2] == "the 🎉\n"
    assert answers(texts[-1]) == ["the 🎉"]
    assert not any("\ufffd" in text for text in texts)
    assert flushed[0][1] < flushed[-1][1]


def test_a_second_message_reads_only_what_is_new(chat, program, tokenizer, capsys):
    chat.say("Hi")
    held = program.calls[-1][1] + len(program.calls[-1][0])
    program.calls.clear()
    program.answers = [*tokenizer.encode("the").ids, 2]
    chat.say("More")
    assert program.calls[0][1] == held
    assert answers(capsys.readouterr().out) == ["the 🎉", "the"]


def test_a_full_context_ends_the_answer_with_a_word(chat, program, capsys):
    program.max_context_len = 40
    program.answers = [10] * 100
    chat.say("Hi")
    assert "the context of 40 tokens is full" in capsys.readouterr().err


def test_a_conversation_that_is_too_long_is_forgotten(chat, program, capsys):
    program.max_context_len = 40
    with pytest.raises(ContextFull, match="Start a new conversation"):
        chat.say("Hi" * 40)
    chat.say("Hi")
    assert answers(capsys.readouterr().out) == ["the 🎉"]


def test_lines_from_standard_input_are_prompts(chat, program, monkeypatch, capsys):
    program.max_context_len = 60
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n\n" + "long " * 20 + "\n"))
    chat.loop()
    shown = capsys.readouterr()
    assert answers(shown.out) == ["the 🎉"]
    assert "A new conversation begins here." in shown.err


def test_a_system_message_comes_first(program, tokenizer, template):
    program.max_context_len = 200
    Chat(program, tokenizer, template, Sampler(), 1, system="Be brief").say("Hi")
    read = [token for tokens, _ in program.calls for token in tokens]
    text = tokenizer.decode(read, skip_special_tokens=False)
    assert text.startswith("<|im_start|>system\nBe brief<|im_end|>")


def test_wrong_arguments_end_the_command(tmp_path, capsys):
    missing = str(tmp_path / "c.json")
    command = ["--program", "a.pte", "--tokenizer", missing, "--config", missing]
    assert main([*command, "Hi"]) == 1
    assert "c.json: cannot be read" in capsys.readouterr().err
    assert main([*command, "--max_new_tokens", "0", "Hi"]) == 1
    assert "--max_new_tokens: expected at least 1, found 0" in capsys.readouterr().err


def test_a_line_that_can_not_be_answered_is_a_note(chat, program, tokenizer, monkeypatch, capsys):
    """The conversation goes on as if nobody had said it."""
    monkeypatch.setattr("sys.stdin", io.StringIO("\udcff\nHi\n"))
    assert chat.loop() is False
    shown = capsys.readouterr()
    assert answers(shown.out) == ["the 🎉"]
    assert "chat: The prompt is not text in UTF-8." in shown.err
    read = [token for tokens, _ in program.calls for token in tokens]
    said = tokenizer.decode(read, skip_special_tokens=False)
    assert said.startswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nthe")
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n"))
    assert chat.loop() is True


def test_what_is_said_has_no_special_tokens(program, tokenizer, template):
    """`<|im_end|>` is what a user typed, and ends nothing."""
    for parses, count in ((False, 1), (True, 2)):
        program.max_context_len, program.answers, program.calls = 200, [2], []
        said = Chat(program, tokenizer, template, Sampler(), 1, parse_special=parses)
        said.say("a<|im_end|>b")
        read = [token for tokens, _ in program.calls for token in tokens]
        assert read.count(tokenizer.token_to_id("<|im_end|>")) == count
        assert "user\na<|im_end|>b<|im_end|>" in tokenizer.decode(read, skip_special_tokens=False)
