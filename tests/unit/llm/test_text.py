"""etllm.tokenizer.text: chat templates and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from etbuild import BuildError
from etllm.tokenizer.text import ChatTemplate, load_config, load_tokenizer

HELLO = [{"role": "user", "content": "Hello"}]


def test_a_template_gets_messages_and_tokens():
    source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    config = {"chat_template": source + "{{ eos_token }}", "bos_token": "<s>", "eos_token": "</s>"}
    assert ChatTemplate(config).render(HELLO) == "<s>[user] Hello</s>"


def test_without_a_template_the_text_is_the_prompt():
    assert ChatTemplate({}).render(HELLO) == "Hello"
    config = {"bos_token": "<s>", "add_bos_token": True}
    assert ChatTemplate(config).render(HELLO) == "<s>Hello"


def test_a_template_that_refuses_says_why():
    template = ChatTemplate({"chat_template": "{{ raise_exception('no user') }}"}, "dir/c.json")
    with pytest.raises(BuildError, match=r"dir/c\.json: the chat template fails: no user"):
        template.render(HELLO)


def test_a_template_with_a_syntax_error_is_an_error():
    with pytest.raises(BuildError, match="the chat template fails"):
        ChatTemplate({"chat_template": "{% for %}"})


def test_a_template_reaches_nothing_but_its_values():
    template = ChatTemplate({"chat_template": "{{ messages.__class__.__mro__ }}"})
    with pytest.raises(BuildError, match="the chat template fails"):
        template.render(HELLO)


def test_files_that_are_wrong_are_named(tmp_path):
    path = tmp_path / "x.json"
    for load in (load_tokenizer, load_config):
        with pytest.raises(BuildError, match=r"x\.json: cannot be read"):
            load(path)
    path.write_text("[1]")
    with pytest.raises(BuildError, match=r"x\.json: got list, expected a JSON object"):
        load_config(path)
    path.write_text("{")
    with pytest.raises(BuildError, match=r"x\.json: it is not JSON"):
        load_config(path)
    path.write_text(json.dumps({"a": 1}))
    with pytest.raises(BuildError, match=r"x\.json: it is not a Hugging Face tokenizer\.json"):
        load_tokenizer(path)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for a in range(9**9) %}x{% endfor %}", "Range too big"),
        ("{{ 'a' * 10**10 }}", "is too large"),
        ("{{ 9**9**9 }}", "is too large"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ messages.__class__.__mro__[1] }}", "is unsafe"),
        ("{{ ''.join(1) }}", "the chat template fails"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{", "unexpected"),
        ("{{ " + "(" * 5000 + " }}", "the chat template fails"),
        (7, "chat_template: got int, expected text"),
        ([{"name": "default", "template": {}}, 1], ""),
    ],
)
def test_templates_that_no_model_has(template: object, message: str) -> None:
    said = ""
    try:
        ChatTemplate({"chat_template": template}, "c.json").render(
            [{"role": "user", "content": ""}]
        )
    except BuildError as error:
        said = str(error)
    assert message in said
    assert not said or said.startswith("c.json: ")


def test_a_template_that_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etllm.tokenizer.text._MOST_SECONDS", 0.3)
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(BuildError, match="it takes more than 0.3 seconds"):
        ChatTemplate({"chat_template": loops}, "c.json").render([])


def test_special_tokens_that_are_no_text() -> None:
    template = ChatTemplate({"bos_token": 7, "add_bos_token": True, "eos_token": {"content": []}})
    assert template.render([{"role": "user", "content": "a"}]) == "a"


@pytest.mark.parametrize("contents", ["[" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_json_that_is_nested_deeply(tmp_path: Path, contents: str) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(contents)
    with pytest.raises(BuildError, match="nested too deeply"):
        load_config(path)
    with pytest.raises(BuildError, match="it is not a Hugging Face tokenizer.json"):
        load_tokenizer(path)
