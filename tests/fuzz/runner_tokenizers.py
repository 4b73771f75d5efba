"""Tokenizers and texts from a grammar: mostly valid, often unusual, sometimes hostile."""

from __future__ import annotations

import random
from typing import Any

_CHARACTERS = (
    *"abcxyzABCZ019 \t\n\r'.,!?_-|<>[]{}$^\\",
    *"éßıİſKǆ\u00a0\u0085\u180e\u200b\u200d\u2028\u3000\ufeff",
    *"e\u0301a\u0323\u0307ạ각\u1100\u1161\u11a8ক\u09beক\u09cbஃ\u0bcaམ\u0f71\u0f72ɔ\u0303",
    *"中文あア한ωЖ𐐀😀👍🏽\U0001f1eb\U0001f1f7½Ⅻ٣▁Ġ",
)
_WORDS = (
    "don't",
    "HELLO",
    "12345",
    "\r\n",
    "  \n",
    "...",
    "<|end|>",
    "<|im_start|>",
    "<s>",
    "ab" * 9,
)
_CLASSES = (
    r"\p{L}",
    r"\p{N}",
    r"\p{Lu}",
    r"\p{M}",
    r"\p{P}",
    r"\p{Han}",
    r"\p{^L}",
    r"\P{Greek}",
    r"\s",
    r"\S",
    r"\w",
    r"\W",
    r"\d",
    r"\h",
    r"\R",
    r"\X",
    r"\O",
    r"\N",
    "[[:punct:]]",
    "[[:alpha:]]",
    "[[:^space:]]",
    "[^\\r\\n\\p{L}\\p{N}]",
    "[\\p{L}&&[^\\p{Han}]]",
    "[a-z[0-9[A-Z]]]",
    "[^a-y&&[^0-9]]",
    ".",
)
_ANCHORS = (r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z", r"\K", r"\C", r"\G", r"\y", r"\Y")
_QUANTIFIERS = (
    "",
    "",
    "",
    "?",
    "*",
    "+",
    "??",
    "*?",
    "+?",
    "*+",
    "++",
    "{1,3}",
    "{2}",
    "{,2}",
    "{1,2}+",
)
_GROUPS = (
    "(?:%s)",
    "(%s)",
    "(?i:%s)",
    "(?m:%s)",
    "(?x: %s )",
    "(?>%s)",
    "(?=%s)",
    "(?!%s)",
    "(?<=%s)",
)
_GROUPS += ("(?<!%s)", "(?<n>%s)", "(?~%s)", "(?W:%s)")
_BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
_SCHEMES = ("always", "first", "never")


class Generator:
    """Makes tokenizers and texts for them, the same ones for a seed.

    Example:
      >>> Generator(7).tokenizer()["model"]["type"]
      'BPE'
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, most: int = 40) -> str:
        """A text without zero bytes, in a few scripts."""
        choice = self._random.choice
        parts = [
            choice(_WORDS) if self._random.random() < 0.15 else choice(_CHARACTERS)
            for _ in range(self._random.randrange(most))
        ]
        if self._random.random() < 0.05:
            parts.append(choice(_CHARACTERS) * self._random.randrange(3000))
        return "".join(parts)

    def regex(self, depth: int = 3) -> str:
        """A regular expression in Oniguruma's syntax; few are malformed."""
        chance, choice = self._random.random(), self._random.choice
        if depth == 0 or chance < 0.3:
            return choice(_CLASSES) + choice(_QUANTIFIERS)
        if chance < 0.4:
            character = choice(_CHARACTERS)
            return ("\\" if character in "[]{}$^\\|.?'-" else "") + character + choice(_QUANTIFIERS)
        if chance < 0.45:
            return choice(_ANCHORS)
        if chance < 0.65:
            return choice(_GROUPS) % self.regex(depth - 1) + choice(_QUANTIFIERS)
        if chance < 0.8:
            return "|".join(self.regex(depth - 1) for _ in range(self._random.randrange(2, 4)))
        return "".join(self.regex(depth - 1) for _ in range(self._random.randrange(2, 4)))

    def tokenizer(self) -> dict[str, Any]:
        """The values of a tokenizer.json."""
        vocabulary = self._vocabulary()
        ids = {token: number for number, token in enumerate(vocabulary)}
        added = self._added(len(ids), ids)
        unknown = self._random.choice([None, "<unk>"])
        return {
            "version": "1.0",
            "added_tokens": added,
            "normalizer": self._maybe(self._normalizer),
            "pre_tokenizer": self._maybe(self._pre_tokenizer),
            "post_processor": None,
            "decoder": self._maybe(self._decoder),
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": unknown,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": self._flag(),
                "byte_fallback": self._flag(),
                "ignore_merges": self._flag(),
                "vocab": ids,
                "merges": self._merges,
            },
        }

    def _flag(self) -> bool:
        return self._random.random() < 0.5

    def _maybe(self, make: Any) -> Any:
        return make() if self._random.random() < 0.8 else None

    def _vocabulary(self) -> list[str]:
        choice = self._random.choice
        tokens = dict.fromkeys(["<unk>"])
        if self._flag():
            tokens |= dict.fromkeys(
                f"<0x{byte:02X}>" for byte in range(256) if self._random.random() < 0.97
            )
        if self._flag():
            printable = [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]
            tokens |= dict.fromkeys(map(chr, printable))
        tokens |= dict.fromkeys(c for c in _CHARACTERS if self._random.random() < 0.8)
        self._merges: list[list[str]] = []
        for _ in range(self._random.randrange(200)):
            left, right = choice(list(tokens)), choice(list(tokens))
            if len(left + right) < 9:
                tokens[left + right] = None
                self._merges.append([left, right])
        return list(tokens)

    def _added(self, free: int, ids: dict[str, int]) -> list[dict[str, Any]]:
        # No two that a normal form makes equal: which of them it is then is nobody's intention.
        contents = ["<|end|>", "<|im_start|>", "<s>", "▁▁", "don't", "é", " ", "ab", "aba"]
        tokens = []
        for content in self._random.sample(contents, self._random.randrange(len(contents))):
            number = ids.get(content, free)
            free += number == free
            names = ("single_word", "lstrip", "rstrip", "normalized", "special")
            tokens.append(
                {"id": number, "content": content}
                | {name: self._random.random() < 0.3 for name in names}
            )
        return sorted(tokens, key=lambda token: token["id"])

    def _several(self, make: Any) -> list[Any]:
        return [make() for _ in range(self._random.randrange(1, 4))]

    def _replacement(self) -> dict[str, Any]:
        pattern, content = self._random.choice(
            [
                (" ", "▁"),
                ("▁", " "),
                ("a", "aa"),
                ("aa", "b"),
                ("é", ""),
                ("ab", "ba"),
                ("\ufffd", "?"),
            ]
        )
        return {"type": "Replace", "pattern": {"String": pattern}, "content": content}

    def _normalizer(self) -> dict[str, Any]:
        kind = self._random.choice(["Replace", "Prepend", "NFC", "NFD", "NFKC", "NFKD", "Sequence"])
        if kind == "Replace":
            return self._replacement()
        if kind == "Prepend":
            return {"type": kind, "prepend": self._random.choice(["▁", "a", " "])}
        if kind == "Sequence":
            return {"type": kind, "normalizers": self._several(self._normalizer)}
        return {"type": kind}

    def _metaspace(self) -> dict[str, Any]:
        scheme = self._random.choice(_SCHEMES)
        split = self._flag()
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}

    def _pre_tokenizer(self) -> dict[str, Any]:
        kinds = ["Split"] * 4 + ["ByteLevel"] * 2
        kind = self._random.choice(
            [*kinds, "Metaspace", "Digits", "Whitespace", "WhitespaceSplit", "Sequence"]
        )
        if kind == "Split":
            pattern = (
                {"Regex": self.regex()}
                if self._random.random() < 0.8
                else {"String": self._random.choice("a'- .")}
            )
            behavior = self._random.choice(_BEHAVIORS)
            return {"type": kind, "pattern": pattern, "behavior": behavior, "invert": self._flag()}
        if kind == "ByteLevel":
            space, words = self._flag(), self._flag()
            return {
                "type": kind,
                "add_prefix_space": space,
                "trim_offsets": True,
                "use_regex": words,
            }
        if kind == "Metaspace":
            return self._metaspace()
        if kind == "Digits":
            return {"type": kind, "individual_digits": self._flag()}
        if kind == "Sequence":
            return {"type": kind, "pretokenizers": self._several(self._pre_tokenizer)}
        return {"type": kind}

    def _decoder(self) -> dict[str, Any]:
        kind = self._random.choice(
            [
                "ByteLevel",
                "Replace",
                "ByteFallback",
                "Fuse",
                "Strip",
                "Metaspace",
                "Sequence",
                "Sequence",
            ]
        )
        if kind == "Replace":
            return self._replacement()
        if kind == "Strip":
            start, stop = self._random.randrange(3), self._random.randrange(3)
            return {
                "type": kind,
                "content": self._random.choice(" ▁a"),
                "start": start,
                "stop": stop,
            }
        if kind == "Metaspace":
            return self._metaspace()
        if kind == "Sequence":
            return {"type": kind, "decoders": self._several(self._decoder)}
        if kind == "ByteLevel":
            return {"type": kind, "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        return {"type": kind}
