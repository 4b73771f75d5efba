"""etllm.tokenizer.chat_format: chat templates as plain texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from etbuild import BuildError
from etllm.tokenizer.chat_format import chat_format, main, write_chat_format
from etllm.tokenizer.text import ChatTemplate

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


def format_of(source, **config):
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
def test_prompts_equal_those_of_the_template(source, prompt):
    template = ChatTemplate({"chat_template": source} | TOKENS)
    expected = template.render([{"role": "user", "content": prompt}])
    assert rendered(format_of(source), prompt) == expected


@pytest.mark.parametrize("source", [CHATML, WITH_DEFAULT, ""])
def test_system_messages_equal_those_of_the_template(source):
    template = ChatTemplate({"chat_template": source} | TOKENS)
    messages = [{"role": "system", "content": " A "}, {"role": "user", "content": "B\n"}]
    assert rendered(format_of(source), "B\n", " A ") == template.render(messages)


def test_a_template_without_system_messages():
    values = format_of(GEMMA)
    assert values["system_and_prompt"] is None
    assert values["trims"] is True
    assert values["prompt"] == [
        "<s><start_of_turn>user\n",
        "<end_of_turn>\n<start_of_turn>model\n",
    ]


def test_a_system_message_that_is_not_trimmed_as_prompts_are():
    values = format_of(LLAMA_2)
    assert values["prompt"] == ["<s>[INST] ", " [/INST]"]
    assert values["trims"] is True
    assert values["system_and_prompt"] is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ messages[0].content | upper }}", "0 times, expected once"),
        ("{{ messages[0].content }}{{ messages[0].content }}", "2 times, expected once"),
        (
            "{{ messages[0].content | replace(' ', '_') }}",
            "changes more of a message than the white space",
        ),
        ("{{ messages[0].content[:6] }}", "0 times, expected once"),
        ("{{ raise_exception('never') }}", "the chat template fails: never"),
    ],
)
def test_templates_that_do_more(source, reason, tmp_path):
    with pytest.raises(BuildError, match=reason):
        format_of(source)
    path = tmp_path / "chat_format.json"
    write_chat_format({"chat_template": source}, "c.json", path)
    values = json.loads(path.read_text())
    assert values.keys() == {"format", "problem"}
    assert values["problem"].startswith("c.json: ") and reason in values["problem"]


def test_tokens_and_templates_in_other_forms():
    template = [{"name": "tools", "template": "x"}, {"name": "default", "template": GEMMA}]
    bos = {"content": "<bos>", "special": True}
    assert format_of(template, bos_token=bos)["prompt"][0] == "<bos><start_of_turn>user\n"


def test_the_command_line(tmp_path, capsys):
    config, output = tmp_path / "tokenizer_config.json", tmp_path / "chat_format.json"
    config.write_text(json.dumps({"chat_template": CHATML}))
    words = [
        sys.executable,
        "-m",
        "etllm.tokenizer.chat_format",
        "--config",
        config,
        "--output",
        output,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(words, env=environment).returncode == 0
    assert json.loads(output.read_text()) == format_of(CHATML)
    (tmp_path / "chat_template.jinja").write_text(GEMMA)
    config.write_text(json.dumps(TOKENS))
    arguments = ["--config", str(config), "--output", str(output)]
    template = ["--template", str(tmp_path / "chat_template.jinja")]
    assert main([*arguments, *template]) == 0
    assert json.loads(output.read_text()) == format_of(GEMMA)
    config.write_text("[]")
    assert main(arguments) == 1
    assert "expected a JSON object" in capsys.readouterr().err


THOUGHTS = (
    "{% for m in messages %}{% set c = m.content %}"
    "{% if m.role == 'assistant' and '</think>' in c and not loop.last %}"
    "{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ c }}<|im_end|>\n{% endfor %}<|im_start|>assistant{{ '\\n' }}"
)
SYSTEM_LAST = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in (messages[1:] if system else messages) %}{% if m.role == 'user' %}[INST]"
    "{% if loop.last and system %}{{ system + '\n\n' }}{% endif %}{{ m.content }}[/INST]"
    "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
)
TOOLS = (
    "{% for m in messages %}{% if not (m.content.startswith('<tool>') and "
    "m.content.endswith('</tool>') and not loop.last) %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "<|im_start|>assistant{{ '\\n' }}"
)
EMPTY = (
    "{% for m in messages %}{% if m.content %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}<|im_start|>assistant{{ '\\n' }}"
)
NOTHING = {
    "answer_ends_with_space": False,
    "answer_starts_with_space": False,
    "contains": [],
    "empty_answer": False,
    "system": False,
}
TRIMS = {"answer_ends_with_space": True, "answer_starts_with_space": True}


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        (CHATML, {}),
        (WITH_DEFAULT, {}),
        (THOUGHTS, {"contains": ["</think>"]}),
        (SYSTEM_LAST, {"system": True}),
        (GEMMA, TRIMS),
        (TOOLS, {"contains": ["<tool>"]}),
        (EMPTY, {"empty_answer": True}),
    ],
)
def test_what_no_message_can_follow(source, changes):
    assert format_of(source)["next_unless"] == NOTHING | changes


@pytest.mark.parametrize("turn", [3, 5, 7])
def test_a_template_that_differs_from_a_later_turn_on(turn):
    later = f"{{% if messages | length >= {turn} %}}Later. {{% endif %}}"
    values = format_of(later + CHATML)
    assert values["next"] is None and values["next_unless"] is None


def test_all_white_space_is_trimmed():
    assert format_of(GEMMA)["trims"] is True
    some = GEMMA.replace("m.content | trim", "m.content.strip(' \n')")
    with pytest.raises(BuildError, match="changes more of a message than the white space"):
        format_of(some)


@pytest.mark.parametrize("source", [CHATML, WITH_DEFAULT, GEMMA])
def test_the_next_turn_equals_that_of_the_template(source):
    values = format_of(source)
    turns = [("user", "Hello"), ("assistant", "Hi."), ("user", "And now?")]
    template = ChatTemplate({"chat_template": source} | TOKENS)
    expected = template.render([{"role": r, "content": c} for r, c in turns])
    before, after = values["next"]
    assert rendered(values, "Hello") + "Hi." + before + "And now?" + after == expected


def test_a_template_that_renders_earlier_turns_differently_has_no_next_turn():
    """The last message only: the KV cache would hold more than the conversation."""
    values = format_of("{{ messages[-1].role }}: {{ messages[-1].content }}{{ '\\n' }}")
    assert values["prompt"] == ["user: ", "\n"]
    assert values["next"] is None
