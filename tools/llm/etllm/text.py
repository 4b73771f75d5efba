"""Between text and tokens: the tokenizer, streams of pieces, the chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from etllm.errors import LlmError

_BUILD_AGAIN = "Build it again from the model's GGUF file with tokenizer_from_gguf."


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`.

    Raises:
      LlmError: the file is missing or no tokenizer.
    """
    try:
        return Tokenizer.from_str(_read(path))
    except LlmError:
        raise
    except Exception as error:  # the library has no exception type of its own
        raise LlmError(
            f"{path}: expected a Hugging Face tokenizer.json; found: {error}.", _BUILD_AGAIN
        ) from None


def load_config(path: Path) -> dict[str, Any]:
    """The values of a `tokenizer_config.json`.

    Raises:
      LlmError: the file is missing or no JSON object.
    """
    try:
        values = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise LlmError(f"{path}: expected JSON; found: {error}.", _BUILD_AGAIN) from None
    if not isinstance(values, dict):
        found = type(values).__name__
        raise LlmError(f"{path}: expected a JSON object; found {found}.", _BUILD_AGAIN)
    return values


def load_template(path: Path) -> str:
    """The text of a `chat_template.jinja`.

    Raises:
      LlmError: the file is missing or no text.
    """
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LlmError(f"{path}: cannot be read: {error}.", _BUILD_AGAIN) from None


class PieceStream:
    """Turns tokens into text as they come, whole characters only.

    A character of several bytes may be split over tokens: it comes out with the last of them.

    Args:
      tokenizer: whose tokens they are.

    Example:

        stream = PieceStream(tokenizer)
        for token in tokens:
            print(stream.add(token), end="", flush=True)
        print(stream.end())
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._waiting: list[int] = []

    def add(self, token: int) -> str:
        """The text that is complete with this token; may be empty."""
        self._waiting.append(token)
        piece = self._stream.step(self._tokenizer, token)
        if not piece:
            return ""
        self._waiting.clear()
        return piece

    def end(self) -> str:
        """What is left: a replacement character where the last one stayed incomplete."""
        rest, self._waiting = self._waiting, []
        return self._tokenizer.decode(rest) if rest else ""


class ChatTemplate:
    """The form in which a model wants a conversation.

    Args:
      config: values of the `tokenizer_config.json`: chat_template, bos_token, eos_token. Without a
        template the messages are joined by line ends.
      where: name of that file, for messages.

    Raises:
      LlmError: the template has a syntax error.

    Example:

        ChatTemplate(config).render([{"role": "user", "content": "Hello"}])
    """

    def __init__(self, config: Mapping[str, Any], where: str = "tokenizer_config.json") -> None:
        self._where = where
        self._tokens = {name: _content(config.get(name)) for name in ("bos_token", "eos_token")}
        self._bos = self._tokens["bos_token"] if config.get("add_bos_token") else ""
        # A template comes with a model's file: it may not reach anything but its own values.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = self._refuse
        try:
            source = _default(config.get("chat_template"))
            self._template = environment.from_string(source) if source else None
        except jinja2.TemplateError as error:
            raise self._wrong(error) from None

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as text that ends where the assistant begins to speak.

        Args:
          messages: each with "role" ("system", "user", "assistant") and "content".

        Raises:
          LlmError: the template refuses them or fails.
        """
        if self._template is None:
            return self._bos + "\n".join(message["content"] for message in messages)
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=True, **self._tokens
            )
        except jinja2.TemplateError as error:
            raise self._wrong(error) from None

    def _refuse(self, reason: str) -> None:
        raise jinja2.TemplateError(reason)

    def _wrong(self, error: jinja2.TemplateError) -> LlmError:
        return LlmError(f"{self._where}: the chat template fails: {error}.", _BUILD_AGAIN)


def _content(token: Any) -> str:
    """The text of a special token, which may be an object with properties of it."""
    return (token.get("content") if isinstance(token, Mapping) else token) or ""


def _default(template: Any) -> str:
    """The template for conversations; some files have a list with others, too."""
    if not isinstance(template, list):
        return template or ""
    named = {entry.get("name"): entry.get("template") for entry in template}
    return named.get("default") or ""
