"""etllm.chat.chat_format: chat templates as plain texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import chat_format_from_config
import pytest
from etllm.chat.chat_format import chat_format, write_chat_format
from etllm.chat.errors import LlmError
from etllm.chat.text import ChatTemplate

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant{{ '\\n' }}"
)
WITH_DEFAULT = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind<|im_end|>\n{% endif %}"
) + CHATML
LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
    "{% set rest = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% set said = m.content %}{% if loop.first and system %}"
    "{% set said = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + said %}{% endif %}"
    "{{ bos_token }}[INST] {{ said.strip() }} [/INST]{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}"
    "{% endif %}{% for m in messages %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}"
    "<end_of_turn>\n{% endfor %}<start_of_turn>model{{ '\\n' }}"
)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def made(source, **config):
    return chat_format(ChatTemplate({"chat_template": source} | TOKENS | config), "c.json")


def rendered(values, prompt, system=None):
    """As the runner does it."""
    said = [prompt] if system is None else [system, prompt]
    around = values["prompt" if system is None else "system_and_prompt"]
    text = around[0]
    for content, after in zip(said, around[1:], strict=True):
        text += (content.strip() if values["trims"] else content) + after
    return text


@pytest.mark.parametrize("source", [CHATML, WITH_DEFAULT, GEMMA, ""])
@pytest.mark.parametrize("prompt", ["Hello", " two\nlines \n", "{{ x }} <|im_end|>"])
def test_prompts_are_as_the_template_has_them(source, prompt):
    template = ChatTemplate({"chat_template": source} | TOKENS)
    wanted = template.render([{"role": "user", "content": prompt}])
    assert rendered(made(source), prompt) == wanted


@pytest.mark.parametrize("source", [CHATML, WITH_DEFAULT, ""])
def test_so_are_system_messages(source):
    template = ChatTemplate({"chat_template": source} | TOKENS)
    messages = [{"role": "system", "content": " A "}, {"role": "user", "content": "B\n"}]
    assert rendered(made(source), "B\n", " A ") == template.render(messages)


def test_a_template_without_system_messages():
    values = made(GEMMA)
    assert values["system_and_prompt"] is None
    assert values["trims"] is True
    assert values["prompt"] == [
        "<s><start_of_turn>user\n",
        "<end_of_turn>\n<start_of_turn>model\n",
    ]


def test_what_is_trimmed_in_one_place_only_is_no_format_with_a_system_message():
    values = made(LLAMA_2)
    assert values["prompt"] == ["<s>[INST] ", " [/INST]"]
    assert values["trims"] is True
    assert values["system_and_prompt"] is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ messages[0].content | upper }}", "0 times in its text"),
        ("{{ messages[0].content }}{{ messages[0].content }}", "2 times in its text"),
        ("{{ messages[0].content | replace(' ', '_') }}", "changes what is said in another way"),
        ("{{ messages[0].content[:6] }}", "0 times in its text"),
        ("{{ raise_exception('never') }}", "the chat template fails: never"),
    ],
)
def test_templates_that_do_more(source, reason, tmp_path):
    with pytest.raises(LlmError, match=reason):
        made(source)
    path = tmp_path / "chat_format.json"
    write_chat_format({"chat_template": source}, "c.json", path)
    values = json.loads(path.read_text())
    assert values.keys() == {"format", "problem"}
    assert values["problem"].startswith("c.json: ") and reason in values["problem"]


def test_tokens_and_templates_in_other_forms():
    template = [{"name": "tools", "template": "x"}, {"name": "default", "template": GEMMA}]
    bos = {"content": "<bos>", "special": True}
    assert made(template, bos_token=bos)["prompt"][0] == "<bos><start_of_turn>user\n"


def test_the_command_line(tmp_path, capsys):
    config, output = tmp_path / "tokenizer_config.json", tmp_path / "chat_format.json"
    config.write_text(json.dumps({"chat_template": CHATML}))
    tool = os.path.abspath(chat_format_from_config.__file__)
    words = [sys.executable, tool, "--config", config, "--output", output]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(words, env=environment).returncode == 0
    assert json.loads(output.read_text()) == made(CHATML)
    (tmp_path / "chat_template.jinja").write_text(GEMMA)
    config.write_text(json.dumps(TOKENS))
    arguments = ["--config", str(config), "--output", str(output)]
    template = ["--template", str(tmp_path / "chat_template.jinja")]
    assert chat_format_from_config.main([*arguments, *template]) == 0
    assert json.loads(output.read_text()) == made(GEMMA)
    config.write_text("[]")
    assert chat_format_from_config.main(arguments) == 1
    assert "expected a JSON object" in capsys.readouterr().err


@pytest.mark.parametrize("source", [CHATML, WITH_DEFAULT, GEMMA])
def test_what_follows_an_answer_is_as_the_template_has_it(source):
    values = made(source)
    turns = [("user", "Hello"), ("assistant", "Hi."), ("user", "And now?")]
    template = ChatTemplate({"chat_template": source} | TOKENS)
    wanted = template.render([{"role": r, "content": c} for r, c in turns])
    before, after = values["next"]
    assert rendered(values, "Hello") + "Hi." + before + "And now?" + after == wanted


def test_a_template_that_retells_the_past_has_no_next_turn():
    """The last message only: what the model has read would be no part of the conversation."""
    values = made("{{ messages[-1].role }}: {{ messages[-1].content }}{{ '\\n' }}")
    assert values["prompt"] == ["user: ", "\n"]
    assert values["next"] is None
