"""Tokens of a conversation in which messages are text, made with Hugging Face's tokenizers only.

What the runner's tokenizer is compared with.
"""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Mapping, Sequence

from etllm.tokenizer.text import ChatTemplate
from tokenizers import AddedToken, Tokenizer


class ConversationEncoder:
    """Turns messages into tokens.

    Special tokens are the template's alone: a message's `<|im_end|>` is read as the characters that
    it has, so nobody ends a turn by writing so. All else is as the tokenizer has it for the text of
    the whole conversation, added tokens that are not special (`<think>`) included.

    Args:
      tokenizer: the model's.
      template: the model's chat template.
      parse_special: whether special tokens in messages are tokens, as for Hugging Face's
        functions.

    Example:

        ConversationEncoder(tokenizer, template).encode([{"role": "user", "content": "Hello"}])
    """

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, parse_special: bool = False
    ) -> None:
        self._tokenizer, self._template = tokenizer, template
        added = {} if parse_special else tokenizer.get_added_tokens_decoder()
        self._special = {number: token for number, token in added.items() if token.special}
        contents = sorted((t.content for t in self._special.values()), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, contents))) if contents else None
        # Nobody can write it, as nobody knows it. No template changes characters for private use.
        self._mark = f"\ue000{secrets.token_hex(8)}"

    def encode(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of a conversation that ends where the assistant begins to speak.

        Args:
          messages: each with "role" ("system", "user", "assistant") and "content".

        Raises:
          LlmError: the template refuses them or fails.
        """
        if not any(self._has_special(message["content"]) for message in messages):
            return self._tokens(self._tokenizer, self._template.render(messages))
        said: list[str] = []

        def disguised(match: re.Match[str]) -> str:
            said.append(match.group())
            return f"{self._mark}said{len(said) - 1}\ue001"

        hidden = [
            {**message, "content": self._pattern.sub(disguised, message["content"])}
            for message in messages
        ]
        text = self._with_placeholders(self._template.render(hidden))
        text = re.sub(f"{self._mark}said([0-9]+)\ue001", lambda m: said[int(m[1])], text)
        tokenizer, numbers = self._without_special
        return [numbers.get(token, token) for token in self._tokens(tokenizer, text)]

    def _has_special(self, content: str) -> bool:
        if self._pattern is None:
            return False
        # A normalizer may make a special token of text that has none.
        tokens = self._tokens(self._tokenizer, content)
        return bool(self._pattern.search(content)) or not self._special.keys().isdisjoint(tokens)

    def _with_placeholders(self, text: str) -> str:
        """The text with a placeholder for each special token of it."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        pieces, done = [], 0
        for number, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            token = self._special.get(number)
            # White space beside a token may belong to it; unknown characters are a token, too.
            at = text.find(token.content, start, end) if token else -1
            if at >= 0:
                pieces += [text[done:at], self._placeholder(number)]
                done = at + len(token.content)
        return "".join([*pieces, text[done:]])

    def _placeholder(self, number: int) -> str:
        return f"{self._mark}token{number}\ue001"

    @functools.cached_property
    def _without_special(self) -> tuple[Tokenizer, dict[int, int]]:
        """A tokenizer that finds placeholders only, and which special tokens these are."""
        tokenizer = Tokenizer.from_str(self._tokenizer.to_str())
        tokenizer.encode_special_tokens = True
        for number, token in self._special.items():
            placeholder = AddedToken(
                self._placeholder(number),
                lstrip=token.lstrip,
                normalized=token.normalized,
                rstrip=token.rstrip,
                single_word=token.single_word,
                special=False,
            )
            tokenizer.add_tokens([placeholder])
        numbers = {tokenizer.token_to_id(self._placeholder(n)): n for n in self._special}
        return tokenizer, numbers

    @staticmethod
    def _tokens(tokenizer: Tokenizer, text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
