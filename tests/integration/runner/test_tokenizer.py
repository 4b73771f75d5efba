"""The runner's tokenizer gives what Hugging Face's gives."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

TOKENIZE = Path("tests/integration/runner/tokenize").absolute()
SMOLLM = Path("models/llama_tokenizer/tokenizer.json").absolute()

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEXTS = [
    "",
    " ",
    "a",
    "Hello, world!",
    "What is the capital of France?",
    "  leading and trailing   ",
    "tabs\tand\nlines\r\n\r\nand   many    spaces \n \n  x",
    "I'm you're we'll HE'S IT'LL don't 'tis rock'n'roll",
    "1234567890 3.14159 1,000,000 x2y3 ٣٤٥ ½ Ⅻ ²",
    "naïve café Ünïcödé ß ẞ ı İ",
    "日本語のテキスト 한국어 中文字符",
    "emoji 😀👍🏽👨‍👩‍👧 and 🇫🇷",
    "e\u0301 combined, a\u0308\u0323",
    "\u00a0non-breaking\u2003em\u3000ideographic\u200bzero",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|><|im_start|> <|im_end |> <|im_",
    "def f(x):\n    return {'a': x[0], \"b\": -1}  # comment\n",
    "ﬁ ﬂ Å ㎏ ①",
    "\u0000\u0001\u007f\u0080\uffff".replace("\u0000", ""),
    "العربية עברית हिन्दी ไทย",
    "▁ a▁b <0x41> <0xZZ>",
    "a\u00a0\u3000<|pad|>\u2003b<|im_end|>\u3000\u2028\u0085 c<|im_end|>\u200bd",
]
ALPHABET = "abcdeABCDE  \n\t'.,!?0123éßж中😀\u0301▁<|>"


def texts(seed: int) -> list[str]:
    generator = random.Random(seed)
    made = ["".join(generator.choices(ALPHABET, k=generator.randrange(1, 60))) for _ in range(300)]
    mixed = [" ".join(generator.sample(TEXTS, 3)) for _ in range(60)]
    return [*TEXTS, *made, *mixed]


def compare(tokenizer: Tokenizer, path: Path, given: Sequence[str]) -> None:
    """Asserts that all texts become the same tokens, and these the same text."""
    done = subprocess.run(
        [TOKENIZE, path],
        input="".join(f"{text}\0" for text in given).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().removesuffix("\n").split("\n")
    assert len(lines) == 2 * len(given)
    for text, tokens, said in zip(given, lines[::2], lines[1::2], strict=True):
        wanted = tokenizer.encode(text, add_special_tokens=False).ids
        assert json.loads(tokens) == wanted, repr(text)
        assert json.loads(said) == tokenizer.decode(wanted), repr(text)


def trained(tokenizer: Tokenizer, size: int = 600, **options: Any) -> Tokenizer:
    """A vocabulary that was learnt from the texts."""
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[
            AddedToken("<|im_start|>", special=True, normalized=False),
            AddedToken("<|im_end|>", special=True, normalized=False, rstrip=True),
            AddedToken("<|pad|>", special=True, normalized=False, lstrip=True),
        ],
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_tokens([AddedToken("don't", special=False, normalized=True), "café"])
    return tokenizer


def byte_level(pre_tokenizer: Any, **model: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained(tokenizer, initial_alphabet=alphabet)


def split_by(pattern: str, **model: Any) -> Tokenizer:
    """As Llama 3 and Qwen have it."""
    parts = [
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return byte_level(pre_tokenizers.Sequence(parts), **model)


def llama_2() -> Tokenizer:
    """Without words, spaces as ▁, and bytes for what is not in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=list("▁abcdefghijklmnopqrstuvwxyz"),
        limit_alphabet=60,
        show_progress=False,
    )
    # Trained on words, as it would else learn whole texts.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(TEXTS[:8] * 3, trainer)
    tokenizer.pre_tokenizer = None
    made = json.loads(tokenizer.to_str())
    # Bytes are ordinary tokens in such files.
    made["added_tokens"] = made["added_tokens"][:1]
    tokenizer = Tokenizer.from_str(json.dumps(made))
    # Looked for as "▁don't", as it is normalized too.
    tokenizer.add_tokens([AddedToken("don't", special=False, normalized=True)])
    return tokenizer


def metaspace(scheme: str, split: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<|pad|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
    return trained(tokenizer)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "gpt_2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "prefix_space": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "digits": lambda: byte_level(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(False)]
        )
    ),
    "llama_3": lambda: split_by(LLAMA_3, ignore_merges=True),
    "qwen_2": lambda: split_by(QWEN_2),
    "llama_2": llama_2,
    "metaspace_always": lambda: metaspace("always", True),
    "metaspace_first": lambda: metaspace("first", False),
    "metaspace_never": lambda: metaspace("never", True),
} | {
    f"split_{behavior}_{invert}": lambda behavior=behavior, invert=invert: byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{L}+|\d"), behavior, invert),
                pre_tokenizers.Split("a", behavior, invert),
                pre_tokenizers.ByteLevel(False, use_regex=False),
            ]
        )
    )
    for behavior in (
        "removed",
        "isolated",
        "merged_with_previous",
        "merged_with_next",
        "contiguous",
    )
    for invert in (False, True)
}


def test_the_models_own() -> None:
    compare(Tokenizer.from_file(str(SMOLLM)), SMOLLM, texts(0))


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, tmp_path: Path) -> None:
    tokenizer = KINDS[kind]()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    compare(tokenizer, path, texts(1))


def test_merges_as_strings(tmp_path: Path) -> None:
    """Older files have "a b" in the place of ["a", "b"]."""
    tokenizer = KINDS["gpt_2"]()
    values = json.loads(tokenizer.to_str())
    values["model"]["merges"] = [" ".join(merge) for merge in values["model"]["merges"]]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    compare(tokenizer, path, texts(2))


def fail(path: Path, values: Any, text: str = "x") -> str:
    path.write_text(json.dumps(values))
    done = subprocess.run(
        [TOKENIZE, path], input=f"{text}\0".encode(), capture_output=True, timeout=60
    )
    assert done.returncode == 1, done.stdout
    message = done.stderr.decode()
    assert message.startswith(f"error: {path}") and message.count("\n") == 1
    return message


def gpt_2() -> dict[str, Any]:
    return json.loads(KINDS["gpt_2"]().to_str())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["model"].update(type="Unigram"), ', model is of type "Unigram"'),
        (lambda v: v.update(model=None), 'has no "model"'),
        (lambda v: v["model"].update(vocab=[]), ", model, vocab is no object"),
        (lambda v: v["model"]["vocab"].update(x=2**40), 'a number for "x" that no token has'),
        (lambda v: v["model"]["merges"].insert(3, ["q", "\u00e9\u00e9"]), "has number 3"),
        (lambda v: v["model"]["merges"].insert(0, 7), "has number 0"),
        (lambda v: v["model"].update(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (lambda v: v.update(normalizer={"type": "Lowercase"}), 'normalizer is of type "Lowercase"'),
        (lambda v: v.update(normalizer={"type": 1}), "normalizer, type is no string"),
        (lambda v: v.update(pre_tokenizer={"type": "Punctuation"}), 'type "Punctuation", which'),
        (lambda v: v.update(decoder={"type": "WordPiece"}), 'decoder is of type "WordPiece"'),
        (
            lambda v: v.update(
                pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}
            ),
            'the regular expression "(" can\'t be read',
        ),
        (lambda v: v["added_tokens"][0].update(single_word=True), "single_word"),
        (lambda v: v["added_tokens"][0].update(id=-1), "is no number of a token"),
        (lambda v: v.update(added_tokens={"a": 1}), "added_tokens is no list"),
        (lambda v: v["model"].update(dropout=0.1), 'has a "dropout"'),
        (
            lambda v: v.update(pre_tokenizer={"type": "Sequence", "pretokenizers": "x"}),
            "is no list",
        ),
        (lambda v: v.update(decoder={"type": "Metaspace", "replacement": ""}), "no replacement"),
        (
            lambda v: v.update(pre_tokenizer={"type": "Metaspace", "prepend_scheme": "last"}),
            'prepend_scheme "last"',
        ),
    ],
)
def test_what_the_runner_does_not_have(
    change: Callable[[Any], None], words: str, tmp_path: Path
) -> None:
    values = gpt_2()
    change(values)
    assert words in fail(tmp_path / "tokenizer.json", values)


def is_composed(text: str) -> bool:
    """Unicode's quick check says so."""
    classes = [unicodedata.combining(character) for character in text]
    return not (set(text) & NOT_COMPOSED) and all(
        two == 0 or one <= two for one, two in itertools.pairwise(classes)
    )


def not_composed() -> set[str]:
    """Characters that NFC changes, or may compose with the one before."""
    found = set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))
    for character in map(chr, (*range(0xD800), *range(0xE000, 0x110000))):
        parts = unicodedata.decomposition(character).split()
        if unicodedata.normalize("NFC", character) != character:
            found.add(character)
        elif len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return found


NOT_COMPOSED = not_composed()


def test_normal_forms_only_where_nothing_changes(tmp_path: Path) -> None:
    values = gpt_2() | {"normalizer": {"type": "NFC"}}
    path = tmp_path / "tokenizer.json"
    message = fail(path, values, "e\u0301")
    assert "doesn't bring text into its normal form (NFC)" in message
    assigned = [
        c
        for c in map(chr, (*range(1, 0xD800), *range(0xE000, 0x110000)))
        if unicodedata.category(c) not in ("Cn", "Co")
    ]
    composed = [c for c in assigned if c not in NOT_COMPOSED]
    rows = [" ".join(composed[i : i + 1000]) for i in range(0, len(composed), 1000)]
    compare(Tokenizer.from_file(str(path)), path, [*(t for t in TEXTS if is_composed(t)), *rows])
    generator = random.Random(3)
    marks = [c for c in composed if unicodedata.combining(c)]
    given = [*generator.sample(sorted(NOT_COMPOSED & set(assigned)), 30)]
    given += ["".join(generator.sample(marks, 2)) for _ in range(60)]
    for text in given:
        if is_composed(text):
            compare(Tokenizer.from_file(str(path)), path, [text])
        else:
            assert "may need that" in fail(path, values, f"a {text}")


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    good = json.dumps(gpt_2()).encode()
    generator = random.Random(0)
    for _ in range(100):
        changed = bytearray(good)
        changed[generator.randrange(len(good))] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        done = subprocess.run([TOKENIZE, path], input=b"Hello\0", capture_output=True, timeout=60)
        assert done.returncode in (0, 1), changed
        path.write_bytes(good[: generator.randrange(len(good))])
        done = subprocess.run([TOKENIZE, path], input=b"Hello\0", capture_output=True, timeout=60)
        assert done.returncode == 1
