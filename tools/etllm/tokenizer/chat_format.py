"""A chat template as plain texts, for the runner, which has no template engine.

The template is rendered with marks instead of messages; what stands between the marks are the
texts that the runner puts around what is said. That holds only for a template that copies each
message once and changes nothing but the white space around it, so each rendering is checked.

The KV cache keeps what was read and generated, so a second message is possible only if the template
renders earlier turns as they were. Conversations of four turns are played through the template:
what it changes, such as the thoughts of earlier answers, is listed, and the runner refuses a
message after it.

    python -m etllm.tokenizer.chat_format --config tokenizer_config.json --output chat_format.json \
        [--template chat_template.jinja]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etbuild.command import tool_main

from etllm.tokenizer.text import ChatTemplate, load_config, load_template

FORMAT = 1
# Private-use characters: no template has them, and none changes them.
_SYSTEM = "\ue000system\ue001"
_PROMPT = "\ue000prompt\ue001"
_ANSWER = "\ue000answer\ue001"
_NEXT = "\ue000next\ue001"
# As Python strips it: also characters that are white space in Unicode, or in Python only.
_SPACE = " \n\u2003\x1f"
_SPACES = (*_SPACE, _SPACE)
_TURNS = 4
# Texts in a template that are tried in messages.
_MOST_TEXTS = 200


def chat_format(template: ChatTemplate, where: str) -> dict[str, Any]:
    """The texts around a prompt, and around a system message and a prompt.

    Args:
      template: the model's chat template.
      where: name of its file, for messages.

    Returns:
      Values for JSON: `prompt` (the texts before and after it), `system_and_prompt` (before,
      between and after; None if the template refuses a system message), `next` (between an answer
      and the next prompt, and after it; None if the template renders earlier turns differently from
      how they were generated), `next_unless` (what is in the way of `next`, see `_changes`), and
      `trims`: whether the template drops the white space around what is said.

    Raises:
      BuildError: the template fails, or does more than put text around a prompt.

    Example:

        chat_format(ChatTemplate(config), "tokenizer_config.json")
    """
    plain, trims = _around(template, [("user", _PROMPT)], where)
    try:
        both, _ = _around(template, [("system", _SYSTEM), ("user", _PROMPT)], where)
    except BuildError:
        both = None
    values: dict[str, Any] = {
        "format": FORMAT,
        "next": _next(template, plain, trims, where),
        "prompt": plain,
        "system_and_prompt": both,
        "trims": trims,
    }
    if values["next"] and not _replays(template, values):
        values["next"] = None
    return values | {"next_unless": _changes(template, values) if values["next"] else None}


def write_chat_format(config: Mapping[str, Any], where: str, path: Path) -> None:
    """Writes the chat format of a `tokenizer_config.json`'s values, or why there is none.

    Args:
      config: the values.
      where: name of their file, for messages.
      path: the file to write.
    """
    try:
        values = chat_format(ChatTemplate(config, where), where)
    except BuildError as error:
        values = {"format": FORMAT, "problem": error.what}
    text = json.dumps(values, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _next(template: ChatTemplate, plain: list[str], trims: bool, where: str) -> list[str] | None:
    """The texts around a prompt that follows an answer."""
    turns = [("user", _PROMPT), ("assistant", _ANSWER), ("user", _NEXT)]
    try:
        pieces, next_trims = _around(template, turns, where)
    except BuildError:
        return None
    # The KV cache holds what was read and generated: the template must render it the same way.
    if pieces[:2] != plain or next_trims != trims:
        return None
    return pieces[2:]


def _replays(
    template: ChatTemplate,
    values: Mapping[str, Any],
    *,
    system: str = "",
    prompt: str = "one",
    answer: str = "yes",
) -> bool:
    """Returns whether each turn of a conversation adds to the text what the runner reads for it."""
    before, *middle, after = values["system_and_prompt" if system else "prompt"]
    messages = [{"role": "system", "content": system}] if system else []
    read = before + "".join(system + text for text in middle)
    for turn in range(_TURNS):
        messages.append({"role": "user", "content": prompt})
        start, end = values["next"] if turn else ("", after)
        read += start + (prompt.strip() if values["trims"] else prompt) + end
        try:
            if template.render(messages) != read:
                return False
        except BuildError:
            return False
        messages.append({"role": "assistant", "content": answer})
        read += answer
    return True


def _changes(template: ChatTemplate, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the template changes in earlier turns, so that nothing can follow it.

    Returns:
      `system`: a system message; `empty_answer`; `answer_starts_with_space` and
      `answer_ends_with_space`; and `contains`, a list of texts in messages.
    """

    def changes(**said: str) -> bool:
        return not _replays(template, values, **said)

    texts = template.texts()[:_MOST_TEXTS]
    contains = [
        text
        for text in texts
        if any(
            changes(**{what: said})
            for what in ("answer", "prompt")
            for said in (f"x{text}y", f"{text}y", f"x{text}")
        )
    ]
    # Such as a prompt that is a tool's response: it starts with one text and ends with another.
    contains += [
        first
        for first, last in zip(texts, texts[1:], strict=False)
        if not {first, last} & set(contains)
        and any(changes(**{what: f"{first}x{last}"}) for what in ("answer", "prompt"))
    ]
    return {
        "answer_ends_with_space": any(changes(answer=f"yes{space}") for space in _SPACES),
        "answer_starts_with_space": any(changes(answer=f"{space}yes") for space in _SPACES),
        "contains": sorted(set(contains)),
        "empty_answer": changes(answer=""),
        "system": bool(values["system_and_prompt"]) and changes(system="Be brief"),
    }


def _around(
    template: ChatTemplate, messages: list[tuple[str, str]], where: str
) -> tuple[list[str], bool]:
    """The texts around messages, and whether the white space around these is dropped."""
    text = template.render([{"role": role, "content": content} for role, content in messages])
    pieces = [text]
    for role, content in messages:
        count = text.count(content)
        if count != 1:
            raise BuildError(
                f"{where}: the chat template renders the {role}'s message {count} times, expected "
                "once."
            )
        pieces[-1:] = pieces[-1].split(content)
    spaced = [{"role": role, "content": f"{_SPACE}{c}{_SPACE}"} for role, c in messages]
    rendered = template.render(spaced)
    for trims, space in ((True, ""), (False, _SPACE)):
        expected = pieces[0]
        for (_, content), piece in zip(messages, pieces[1:], strict=True):
            expected += f"{space}{content}{space}{piece}"
        if rendered == expected:
            return pieces, trims
    raise BuildError(
        f"{where}: the chat template changes more of a message than the white space around it."
    )


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes a chat format."""
    parser = argparse.ArgumentParser(
        prog="chat_format", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--config", type=Path, required=True, help="tokenizer_config.json")
    parser.add_argument("--template", type=Path, help="replaces the template in the config")
    parser.add_argument("--output", type=Path, required=True, help="chat_format.json to write")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    if options.template:
        config["chat_template"] = load_template(options.template)
    where = options.template or options.config
    write_chat_format(config, where.name, options.output)


if __name__ == "__main__":
    sys.exit(main())
