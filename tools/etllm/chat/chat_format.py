"""A chat template as plain texts, for programs that have no template engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etllm.chat.errors import LlmError
from etllm.chat.text import ChatTemplate

FORMAT = 1
# Private-use characters: no template has them, and none changes them.
_SYSTEM = "\ue000system\ue001"
_PROMPT = "\ue000prompt\ue001"
_ANSWER = "\ue000answer\ue001"
_NEXT = "\ue000next\ue001"
_SPACE = " \n"
_IN_PYTHON = "Such a template needs a template engine: talk with the model in Python."


def chat_format(template: ChatTemplate, where: str) -> dict[str, Any]:
    """What stands around a prompt, and around a system message and a prompt.

    Args:
      template: the model's form of a conversation.
      where: name of its file, for messages.

    Returns:
      Values for JSON: `prompt` (the texts before and after it), `system_and_prompt` (before,
      between and after; None where the template takes no system message), `next` (between an answer
      and the next prompt, and after it; None where the template tells the past in another way than
      it came), and `trims`: whether the template drops the space around what is said.

    Raises:
      LlmError: the template fails, or does something else to a prompt than putting text around it.

    Example:

        chat_format(ChatTemplate(config), "tokenizer_config.json")
    """
    plain, trims = _around(template, [("user", _PROMPT)], where)
    try:
        both, _ = _around(template, [("system", _SYSTEM), ("user", _PROMPT)], where)
    except LlmError:
        both = None
    return {
        "format": FORMAT,
        "next": _next(template, plain, trims, where),
        "prompt": plain,
        "system_and_prompt": both,
        "trims": trims,
    }


def write_chat_format(config: Mapping[str, Any], where: str, path: Path) -> None:
    """Writes the chat format of a `tokenizer_config.json`'s values, or why there is none.

    Args:
      config: the values.
      where: name of their file, for messages.
      path: where to.
    """
    try:
        values = chat_format(ChatTemplate(config, where), where)
    except LlmError as error:
        values = {"format": FORMAT, "problem": str(error).splitlines()[0]}
    text = json.dumps(values, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _next(template: ChatTemplate, plain: list[str], trims: bool, where: str) -> list[str] | None:
    """The texts around a prompt that follows an answer."""
    turns = [("user", _PROMPT), ("assistant", _ANSWER), ("user", _NEXT)]
    try:
        pieces, next_trims = _around(template, turns, where)
    except LlmError:
        return None
    # What the model has read and said must be how the template tells it afterwards.
    if pieces[:2] != plain or next_trims != trims:
        return None
    return pieces[2:]


def _around(
    template: ChatTemplate, said: list[tuple[str, str]], where: str
) -> tuple[list[str], bool]:
    """The texts around messages, and whether the space around these is dropped."""
    text = template.render([{"role": role, "content": content} for role, content in said])
    pieces = [text]
    for role, content in said:
        count = text.count(content)
        if count != 1:
            raise LlmError(
                f"{where}: the chat template has the {role}'s message {count} times in its text, "
                "expected once.",
                _IN_PYTHON,
            )
        pieces[-1:] = pieces[-1].split(content)
    spaced = [{"role": role, "content": f"{_SPACE}{c}{_SPACE}"} for role, c in said]
    got = template.render(spaced)
    for trims, space in ((True, ""), (False, _SPACE)):
        wanted = pieces[0]
        for (_, content), piece in zip(said, pieces[1:], strict=True):
            wanted += f"{space}{content}{space}{piece}"
        if got == wanted:
            return pieces, trims
    raise LlmError(
        f"{where}: the chat template changes what is said in another way than dropping the space "
        "around it.",
        _IN_PYTHON,
    )
