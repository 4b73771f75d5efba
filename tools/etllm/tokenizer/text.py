"""The tokenizer and the chat template, between text and tokens."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.nodes
from etbuild import BuildError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

# Limits of a template: the product and the power of two values, and its time.
_MOST_PRODUCT = 10**7
_MOST_POWER = 10**4
_MOST_SECONDS = 10.0

_FETCH_AGAIN = "Fetch the model's files again."


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`.

    Raises:
      BuildError: the file is missing or malformed.
    """
    try:
        return Tokenizer.from_str(_read(path))
    except (BuildError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # The library raises this when it panics.
        raise BuildError(
            f"{path}: it is not a Hugging Face tokenizer.json: {error}.", _FETCH_AGAIN
        ) from None


def load_config(path: Path) -> dict[str, Any]:
    """The values of a `tokenizer_config.json`.

    Raises:
      BuildError: the file is missing, or is not a JSON object.
    """
    try:
        values = json.loads(_read(path))
    except RecursionError:
        raise BuildError(f"{path}: it is not JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise BuildError(f"{path}: it is not JSON: {error}.", _FETCH_AGAIN) from None
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise BuildError(f"{path}: got {kind}, expected a JSON object.", _FETCH_AGAIN)
    return values


def load_template(path: Path) -> str:
    """The text of a `chat_template.jinja`.

    Raises:
      BuildError: the file is missing, or is not text in UTF-8.
    """
    return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path}: cannot be read: {error}.", _FETCH_AGAIN) from None


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox that also limits memory."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Multiplies; refuses results that would exhaust the memory."""
        sizes = [len(v) if isinstance(v, str | list | tuple) else v for v in (left, right)]
        if all(isinstance(size, int | float) for size in sizes):
            most = _MOST_PRODUCT if operator == "*" else _MOST_POWER
            if abs(sizes[0]) * abs(sizes[1]) > most:
                raise jinja2.TemplateRuntimeError(f"{sizes[0]} {operator} {sizes[1]} is too large")
        return super().call_binop(context, operator, left, right)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Limits the time of a block; in the main thread only, as others get no signals."""
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
        # None: the handler was not set from Python, which cannot restore it.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)


class ChatTemplate:
    """A model's chat template: how it expects a conversation.

    Args:
      config: values of the `tokenizer_config.json`: chat_template, bos_token, eos_token. Without a
        template the messages are joined by line ends.
      where: name of that file, for messages.

    Raises:
      BuildError: the template has a syntax error.

    Example:

        ChatTemplate(config).render([{"role": "user", "content": "Hello"}])
    """

    def __init__(self, config: Mapping[str, Any], where: str = "tokenizer_config.json") -> None:
        self._where = where
        self._tokens = {name: _content(config.get(name)) for name in ("bos_token", "eos_token")}
        self._bos = self._tokens["bos_token"] if config.get("add_bos_token") else ""
        # A template is code of the model's author: it reaches nothing but its own values.
        environment = _Environment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = self._refuse
        source = _default(config.get("chat_template"))
        if not isinstance(source, str):
            raise BuildError(
                f"{where}: chat_template: got {type(source).__name__}, expected text.",
                _FETCH_AGAIN,
            )
        try:
            self._template = environment.from_string(source) if source else None
            self._tree = environment.parse(source) if source else None
        except Exception as error:  # jinja2 compiles to Python, which may raise anything.
            raise self._failure(error) from None

    def texts(self) -> list[str]:
        """The texts in the template's expressions, such as `</think>`, in its order, each once."""
        if self._tree is None:
            return []
        texts = (constant.value for constant in self._tree.find_all(jinja2.nodes.Const))
        stripped = (text.strip() for text in texts if isinstance(text, str))
        return list(dict.fromkeys(text for text in stripped if text))

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The conversation as text that ends where the assistant begins to speak.

        Args:
          messages: each with "role" ("system", "user", "assistant") and "content".

        Raises:
          BuildError: the template refuses them or fails.
        """
        if self._template is None:
            return self._bos + "\n".join(message["content"] for message in messages)
        try:
            with _time_limit(_MOST_SECONDS):
                return self._template.render(
                    messages=list(messages), add_generation_prompt=True, **self._tokens
                )
        except Exception as error:  # A template evaluates expressions, which may raise anything.
            raise self._failure(error) from None

    def _refuse(self, reason: str) -> None:
        raise jinja2.TemplateError(reason)

    def _failure(self, error: Exception) -> BuildError:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        return BuildError(
            f"{self._where}: the chat template fails: {text.rstrip('.')}.", _FETCH_AGAIN
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
