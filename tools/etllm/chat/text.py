"""Between text and tokens: the tokenizer, streams of pieces, the chat template."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from etllm.chat.errors import LlmError

# Of a template: what it may make of two values, and how long it may take.
_MOST_PRODUCT = 10**7
_MOST_POWER = 10**4
_MOST_SECONDS = 10.0

_BUILD_AGAIN = "Build it again from the model's GGUF file with tokenizer_from_gguf."


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`.

    Raises:
      LlmError: the file is missing or no tokenizer.
    """
    try:
        return Tokenizer.from_str(_read(path))
    except (LlmError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # the library has no type of its own, and its panics a base one
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
    except RecursionError:
        raise LlmError(f"{path}: expected JSON; found: it is nested too deeply.") from None
    except ValueError as error:
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


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that has no room for values that nobody reads."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Multiplies; refuses what would take a computer's memory."""
        sizes = [len(v) if isinstance(v, str | list | tuple) else v for v in (left, right)]
        if all(isinstance(size, int | float) for size in sizes):
            most = _MOST_PRODUCT if operator == "*" else _MOST_POWER
            if abs(sizes[0]) * abs(sizes[1]) > most:
                raise jinja2.TemplateRuntimeError(f"{sizes[0]} {operator} {sizes[1]} is too large")
        return super().call_binop(context, operator, left, right)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Ends what takes too long; outside of the main thread, where signals don't come, nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise jinja2.TemplateRuntimeError(f"it takes more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None: it was set by other code than Python's, which has no way to set it again.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


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
        environment = _Environment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = self._refuse
        source = _default(config.get("chat_template"))
        if not isinstance(source, str):
            raise LlmError(
                f"{where}: chat_template: expected text, found {type(source).__name__}.",
                _BUILD_AGAIN,
            )
        try:
            self._template = environment.from_string(source) if source else None
        except Exception as error:  # jinja2 compiles to Python, which may fail in any way.
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
            with _time_limit(_MOST_SECONDS):
                return self._template.render(
                    messages=list(messages), add_generation_prompt=True, **self._tokens
                )
        except Exception as error:  # A template can do whatever an expression of Python can.
            raise self._wrong(error) from None

    def _refuse(self, reason: str) -> None:
        raise jinja2.TemplateError(reason)

    def _wrong(self, error: Exception) -> LlmError:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        return LlmError(
            f"{self._where}: the chat template fails: {text.rstrip('.')}.", _BUILD_AGAIN
        )


def _content(token: Any) -> str:
    """The text of a special token, which may be an object with properties of it."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else ""


def _default(template: Any) -> Any:
    """The template for conversations; some files have a list with others, too."""
    if not isinstance(template, list):
        return template or ""
    named = [e for e in template if isinstance(e, Mapping) and e.get("name") == "default"]
    return named[-1].get("template") or "" if named else ""
