"""The runner's tokenizer gives the same tokens as Hugging Face's."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import random
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceNormalizer
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.fuzz.runner_tokenizers import Generator

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
    lines = done.stdout.decode().split("\n")[:-1]
    assert len(lines) == 2 * len(given)
    for text, tokens, said in zip(given, lines[::2], lines[1::2], strict=True):
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert json.loads(tokens) == expected, repr(text)
        assert json.loads(said) == tokenizer.decode(expected), repr(text)


def trained(tokenizer: Tokenizer, size: int = 600, **options: Any) -> Tokenizer:
    """A vocabulary that was learned from the texts."""
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
    """Like those of Llama 3 and Qwen."""
    parts = [
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return byte_level(pre_tokenizers.Sequence(parts), **model)


def llama_2() -> Tokenizer:
    """Without words, with ▁ for spaces, and bytes for unknown characters."""
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


def with_model(
    model: Any, trainer: Any, normalizer: Any, pre_tokenizer: Any, decoder: Any
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def word_piece(pre_tokenizer: Any = None, **normalizer: Any) -> Tokenizer:
    """Like that of BERT."""
    return with_model(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20),
        trainers.WordPieceTrainer(
            vocab_size=300,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            show_progress=False,
        ),
        normalizers.BertNormalizer(**normalizer),
        pre_tokenizer or pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )


def unigram(normalizer: Any, pre_tokenizer: Any, *, bytes_too: bool = False) -> Tokenizer:
    """Like those of sentencepiece."""
    tokenizer = with_model(
        models.Unigram(),
        trainers.UnigramTrainer(
            vocab_size=300,
            special_tokens=["<unk>", "</s>"],
            unk_token="<unk>",
            show_progress=False,
        ),
        normalizer,
        pre_tokenizer,
        decoders.Metaspace(),
    )
    if not bytes_too:
        return tokenizer
    values = json.loads(tokenizer.to_str())
    values["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    values["model"]["byte_fallback"] = True
    values["decoder"] = {
        "type": "Sequence",
        "decoders": [{"type": "ByteFallback"}, values["decoder"]],
    }
    return Tokenizer.from_str(json.dumps(values))


@functools.cache
def table_of_sentencepiece(rule: str = "nmt_nfkc") -> bytes:
    """The replacements that sentencepiece writes into the models that it trains."""
    model = ModelProto()
    model.ParseFromString(SentencePieceNormalizer(rule_name=rule).serialized_model_proto())
    return model.normalizer_spec.precompiled_charsmap


def precompiled() -> Tokenizer:
    """Like those of T5 and XLM-R."""
    return unigram(
        normalizers.Precompiled(table_of_sentencepiece()),
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        ),
    )


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
    "bert": word_piece,
    "bert_cased": lambda: word_piece(lowercase=False),
    "bert_raw": lambda: word_piece(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ),
    "word_piece_punctuation": lambda: word_piece(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Punctuation("merged_with_previous"),
            ]
        )
    ),
    "unigram": lambda: unigram(None, pre_tokenizers.Metaspace()),
    "unigram_bytes": lambda: unigram(
        normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Lowercase()]),
        pre_tokenizers.Metaspace(),
        bytes_too=True,
    ),
    "unigram_words": lambda: unigram(
        normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip(right=False)]
        ),
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        ),
    ),
    "precompiled": precompiled,
    "precompiled_lowercase": lambda: unigram(
        normalizers.Sequence(
            [
                normalizers.Precompiled(table_of_sentencepiece("nmt_nfkc_cf")),
                normalizers.Replace(Regex(" {2,}"), " "),
                normalizers.Replace(Regex("[\\d]*"), "#"),
            ]
        ),
        pre_tokenizers.Metaspace(),
    ),
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
    """Older files have "a b" instead of ["a", "b"]."""
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
        (lambda v: v["model"].update(type="WordLevel"), ', model is of type "WordLevel"'),
        (lambda v: v.update(model=None), '"model" is missing or not of type object'),
        (
            lambda v: v["model"].update(vocab=[]),
            ', model: "vocab" is missing or not of type object',
        ),
        (lambda v: v["model"]["vocab"].update(x=2**40), 'a number for "x" that no token has'),
        (lambda v: v["model"]["merges"].insert(3, ["q", "\u00e9\u00e9"]), "has number 3"),
        (lambda v: v["model"]["merges"].insert(0, 7), "has number 0"),
        (lambda v: v["model"].update(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (lambda v: v.update(normalizer={"type": "Nmt"}), 'normalizer is of type "Nmt"'),
        (
            lambda v: v.update(normalizer={"type": 1}),
            ', normalizer: "type" is missing or not of type string',
        ),
        (lambda v: v.update(pre_tokenizer={"type": "FixedLength"}), 'type "FixedLength", which'),
        (lambda v: v.update(decoder={"type": "CTC"}), 'decoder is of type "CTC"'),
        (
            lambda v: v.update(
                pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}
            ),
            'the regular expression "(" is malformed: end pattern with unmatched parenthesis',
        ),
        (
            lambda v: v.update(
                pre_tokenizer={
                    "type": "Split",
                    "pattern": {"Regex": "\\Ga"},
                    "behavior": "Isolated",
                }
            ),
            "has \\G, which the runner does not support",
        ),
        (
            lambda v: v.update(normalizer={"type": "Precompiled"}),
            '"precompiled_charsmap" is missing',
        ),
        (
            lambda v: v.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "A/"}),
            "has a precompiled_charsmap that is damaged: it does not begin with a table",
        ),
        (
            lambda v: v.update(
                normalizer={"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAD/"}
            ),
            "has a precompiled_charsmap that is damaged: its texts are not UTF-8",
        ),
        (
            lambda v: v.update(post_processor={"type": "Unknown"}),
            ', post_processor is of type "Unknown", which the runner does not support',
        ),
        (
            lambda v: v.update(
                post_processor={
                    "type": "Sequence",
                    "processors": [{"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]}]
                    * 2,
                }
            ),
            "processors[1] is the second one that adds tokens",
        ),
        (
            lambda v: v.update(post_processor={"type": "BertProcessing", "cls": ["a"], "sep": []}),
            'has a "cls" that is not a token and its id',
        ),
        (
            lambda v: v.update(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}],
                    "pair": [],
                    "special_tokens": {},
                }
            ),
            '"[CLS]" is missing',
        ),
        (lambda v: v["model"].update(unk_token="none"), 'has the unk_token "none"'),
        (lambda v: v["added_tokens"][0].update(id=-1), '"id" is missing or not of type number'),
        (
            lambda v: v.update(added_tokens={"a": 1}),
            '"added_tokens" is missing or not of type list',
        ),
        (lambda v: v["model"].update(dropout=0.1), 'has a "dropout"'),
        (
            lambda v: v.update(pre_tokenizer={"type": "Sequence", "pretokenizers": "x"}),
            '"pretokenizers" is missing or not of type list',
        ),
        (
            lambda v: v.update(decoder={"type": "Metaspace", "replacement": ""}),
            "is not one character",
        ),
        (
            lambda v: v.update(pre_tokenizer={"type": "Metaspace", "prepend_scheme": "last"}),
            'prepend_scheme "last"',
        ),
        (
            lambda v: v.update(
                normalizer={"type": "Strip", "strip_left": True, "strip_right": False},
                pre_tokenizer={"type": "Metaspace", "prepend_scheme": "first"},
            ),
            'prepend_scheme "first" behind a normalizer that may remove the start of a text, which',
        ),
    ],
)
def test_what_the_runner_does_not_have(
    change: Callable[[Any], None], words: str, tmp_path: Path
) -> None:
    values = gpt_2()
    change(values)
    assert words in fail(tmp_path / "tokenizer.json", values)


def bytes_only() -> dict[str, Any]:
    """Each byte is a token, so that the tokens are the normalized text."""
    tokenizer = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(ALPHABET_OF_BYTES)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return json.loads(tokenizer.to_str())


ALPHABET_OF_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
# No version of Unicode assigns characters from here on, but for tags and variation selectors.
UNASSIGNED = 0x33480
REST = range(UNASSIGNED, 0x110000)
ALL = [chr(c) for c in (*range(1, 0xD800), *range(0xE000, UNASSIGNED), *range(0xE0000, 0xE0200))]
ALL += [chr(c) for c in REST[::61]]
all_characters = pytest.mark.parametrize(
    "characters",
    [ALL, pytest.param([chr(c) for c in REST], marks=pytest.mark.release)],
    ids=["assigned", "others"],
)


def parts_of(characters: list[str]) -> Iterator[list[str]]:
    """The characters of one text after the other."""
    for start in range(0, len(characters), 2000):
        yield characters[start : start + 2000]


SIMPLE_NORMALIZERS = {
    "bert": normalizers.BertNormalizer(),
    "bert_cased": normalizers.BertNormalizer(lowercase=False),
    "accents": normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ),
    "lowercase": normalizers.Lowercase(),
    "strip_accents": normalizers.StripAccents(),
    "precompiled": normalizers.Precompiled(table_of_sentencepiece()),
    "strip": normalizers.Strip(),
    "strip_right": normalizers.Strip(left=False),
}


@all_characters
@pytest.mark.parametrize("name", SIMPLE_NORMALIZERS)
@pytest.mark.few(2)
def test_normalizers_of_characters(name: str, characters: list[str], tmp_path: Path) -> None:
    """All characters, alone and beside each other."""
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer.from_str(json.dumps(bytes_only()))
    tokenizer.normalizer = SIMPLE_NORMALIZERS[name]
    tokenizer.save(str(path))
    given = ["x".join(part) for part in parts_of(characters)]
    compare(tokenizer, path, given + texts(4) + [c + "x" + c for c in ALL[:0x3100]])


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc_cf"])
def test_replacements_of_clusters(rule: str, tmp_path: Path) -> None:
    """Characters that belong together are replaced together, if they have fewer than six bytes."""
    path = tmp_path / "tokenizer.json"
    tokenizer = Tokenizer.from_str(json.dumps(bytes_only()))
    tokenizer.normalizer = normalizers.Precompiled(table_of_sentencepiece(rule))
    tokenizer.save(str(path))
    combining = [c for c in ALL if unicodedata.category(c).startswith("M")] + ["\u200d", "\u0600"]
    around = ["a", "e", "ﬁ", "ｅ", "é", "\u0600", "\r", "\n", "\u1100", "か", "\u0e01"]
    given = ["".join(f"{first}{c} {c}{first} " for first in around) for c in combining]
    generator = random.Random(5)
    given += ["".join(generator.choices([*combining, *around], k=12)) for _ in range(3000)]
    compare(tokenizer, path, [*given, "\r\n\n\r", "👨\u200d👩", "🇫🇷🇩🇪"])


PROCESSORS = {
    "none": None,
    "byte_level": processors.ByteLevel(),
    "bert": processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
    "roberta": processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)),
    "t5": processors.TemplateProcessing("$A [SEP]", "$A [SEP] $B [SEP]", [("[SEP]", 3)]),
    "template": processors.Sequence(
        [
            processors.ByteLevel(),
            processors.TemplateProcessing(
                single="[CLS]:4 $A:0 [SEP]:0",
                pair="[CLS]:0 $B:2 [SEP]:7 $A:1 [SEP]:1",
                special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
            ),
        ]
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_special_tokens_around_texts(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = word_piece()
    tokenizer.post_processor = PROCESSORS[name]
    tokenizer.save(str(path))
    given = [tuple(TEXTS[:1]), *((text,) for text in TEXTS), *zip(TEXTS, TEXTS[3:], strict=False)]
    done = subprocess.run(
        [TOKENIZE, path, "marked"],
        input="".join(
            "\1".join(texts) + "\0" for texts in given if "\1" not in "".join(texts)
        ).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.decode().split("\n")[:-1])
    for one in given:
        if "\1" in "".join(one):
            continue
        expected = tokenizer.encode(*one)
        assert json.loads(next(lines)) == expected.ids, one
        assert json.loads(next(lines)) == expected.type_ids, one
    assert next(lines, None) is None


@all_characters
def test_punctuation(characters: list[str], tmp_path: Path) -> None:
    """All characters: each is one token, or unknown, so the words show in the tokens."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##a": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    given = ["".join(f" aa{c}aa" for c in part) for part in parts_of(characters)]
    compare(tokenizer, path, given)


@all_characters
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.few(1)
def test_normal_forms(form: str, characters: list[str], tmp_path: Path) -> None:
    """All characters, alone and with combining ones, including those newer than version 9."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(bytes_only() | {"normalizer": {"type": form}}))
    generator = random.Random(3)
    parts = {
        chr(int(part, 16))
        for character in ALL
        for part in unicodedata.decomposition(character).split()
        if not part.startswith("<")
    }
    combining = [c for c in ALL if unicodedata.combining(c)] + sorted(parts)
    combining += map(chr, (*range(0x1100, 0x1200), 0x11930, 0x11935, 0x16121, 0x1611E, 0x113C2))
    given = [" ".join(part) for part in parts_of(characters)]
    given += ["".join(generator.choices(combining, k=12)) for _ in range(3000)]
    given += ["কো", "ொ", "హి", "မြန်မာ", "ɔ̃", "ക്ഷ", "ගෞ", "ଓଡ଼ିଆ"]
    compare(Tokenizer.from_file(str(path)), path, given)


PATTERNS = {
    "gpt_4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "intersection": r"[\p{Han}]+|[\p{L}\p{M}&&[^\p{Han}]]+|[^a-y&&[^0-9]]",
    "nested_class": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "deep_class": r"[a-z[0-9[A-Z]]]+",
    "hexadecimal": r"\h+|\H",
    "word_bounds": r"\b\w|\B.",
    "any_with_m": r"(?m:.+)",
    "lines": r"^.|x$",
    "empty": r"x*|(?=\p{L})",
    "posix": r"[[:punct:]]+|[[:space:]]+|[[:^alpha:][:digit:]]",
    "not": r"\p{^L}+|\P{N}",
    "fold": r"(?i)ss|ſt|k|ǆ",
    "possessive": r"a{1,2}+b|\p{L}++",
    "keep": r"\p{L}\K\p{N}",
    "text": r"\R|\X",
    "ends": r"\A.|.\z|.\Z",
    "names": r"(?<q>['\"]).*?\k<q>",
    "look_behind": r"(?<=\p{L})\p{N}|(?<!a)b",
    "options": r"(?W)\w+|(?P)[[:alpha:]]+|(?D)\d+",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_regular_expressions(name: str, tmp_path: Path) -> None:
    """Patterns mean the same as in Oniguruma, on texts in many scripts."""
    path = tmp_path / "tokenizer.json"
    tokenizer = split_by(PATTERNS[name])
    tokenizer.save(str(path))
    generator = random.Random(4)
    blocks = (0x20, 0x20, 0xA0, 0x370, 0x400, 0x600, 0x900, 0xE00, 0x1E00, 0x3040, 0x4E00, 0xAC00)
    spaces = "  \n\t\r\u0085\u180e\u200b\u2028\u3000'"
    given = []
    for _ in range(200):
        starts = generator.choices(blocks, k=2)
        characters = [chr(generator.choice(starts) + generator.randrange(95)) for _ in range(30)]
        given.append(
            "".join(c if generator.random() < 0.8 else generator.choice(spaces) for c in characters)
        )
    compare(tokenizer, path, [*given, *texts(5)])


def added(number: int, content: str, **flags: bool) -> dict[str, Any]:
    return {
        "id": number,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    } | flags


@pytest.mark.parametrize("seed", range(10))
def test_ids_of_added_tokens(seed: int, tmp_path: Path) -> None:
    """Either those of Hugging Face's, which ignore the number in the file, or an error."""
    generator = random.Random(seed)
    path = tmp_path / "tokenizer.json"
    accepted = 0
    for _ in range(15):
        values = bytes_only()
        values["model"]["vocab"]["he"] = 256
        contents = generator.sample(["he", "a", "<a>", "<b>", "<c>"], generator.randrange(1, 4))
        known = {"he": 256, "a": values["model"]["vocab"]["a"]}
        number = 257
        values["added_tokens"] = []
        for content in contents:
            right = known.get(content, number)
            number += content not in known
            wrong = generator.choice([right + 1, 300, 64])
            chosen = wrong if generator.random() < 0.2 else right
            values["added_tokens"].append(added(chosen, content))
        path.write_text(json.dumps(values))
        given = "he a<a>b<b> <c>he"
        expected = Tokenizer.from_file(str(path)).encode(given).ids
        done = subprocess.run([TOKENIZE, path], input=f"{given}\0".encode(), capture_output=True)
        if done.returncode == 0:
            accepted += 1
            assert json.loads(done.stdout.decode().split("\n")[0]) == expected, values
        else:
            assert b"has the id" in done.stderr, done.stderr
    assert accepted > 2


def test_an_added_token_twice(tmp_path: Path) -> None:
    values = bytes_only() | {"added_tokens": [added(256, "<a>"), added(256, "<a>", special=False)]}
    message = fail(tmp_path / "tokenizer.json", values)
    assert 'added_tokens[1] has the content "<a>", which another one has, too' in message


LENGTHS: list[tuple[Any, Any]] = [
    ({"max_length": n, "strategy": strategy, "stride": 0, "direction": direction}, padding)
    for n in (2, 3, 4, 7, 40)
    for strategy in ("LongestFirst", "OnlyFirst")
    for direction, padding in (("Right", None), ("Left", {"strategy": {"Fixed": 12}}))
]
LENGTHS += [
    (None, {"strategy": "BatchLongest", "pad_to_multiple_of": 8}),
    (None, {"strategy": {"Fixed": 9}, "direction": "Left", "pad_id": 3, "pad_type_id": 5}),
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("truncation", "padding"), LENGTHS)
def test_lengths(truncation: Any, padding: Any, tmp_path: Path) -> None:
    """Cuts and pads as Hugging Face's; a conversation is refused."""
    made = word_piece()
    made.post_processor = PROCESSORS["bert"]
    values = json.loads(made.to_str())
    values["truncation"] = truncation
    defaults = {"direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    values["padding"] = padding and {"pad_to_multiple_of": None} | defaults | padding
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    tokenizer = Tokenizer.from_file(str(path))
    texts = ["", "a", "hello world", "a b c d e f g h i j k l m n o p"]
    for one in [(text,) for text in texts] + [(a, b) for a in texts for b in texts]:
        try:
            expected = tokenizer.encode(*one)
        except Exception:  # Only one text is shortened, and is too short.
            expected = None
        given = "\1".join(one).encode() + b"\0"
        done = subprocess.run([TOKENIZE, path, "marked"], input=given, capture_output=True)
        if expected is None:
            assert b"shortens one text only" in done.stderr
            continue
        if b"leaves none for a text" in done.stderr:
            assert truncation["max_length"] <= 3
            continue
        tokens, segments = map(json.loads, done.stdout.decode().split("\n")[:2])
        assert (tokens, segments) == (expected.ids, expected.type_ids), one
    assert "which would change the tokens of a conversation" in fail(path, values)


EMPTY = (
    "a|(?=c)",
    r"\s+|\b",
    r"(?<=[a-z])(?=[A-Z])|\s+",
    r"\d|(?<=[a-z])(?=[A-Z])",
    "a|(?<=b)",
    r"(?<=\d)|[a-c]+",
    r"\s|$|^",
    "x*",
    r"\b|a*?",
    "(?=b)|(?<=b)|é",
)


@pytest.mark.parametrize("pattern", EMPTY)
def test_empty_matches(pattern: str, tmp_path: Path) -> None:
    """An empty match is lost only where the match before it ends."""
    path = tmp_path / "tokenizer.json"
    generator = random.Random(7)
    letters = "abcABC 12é\n"
    given = ["".join(generator.choices(letters, k=generator.randrange(12))) for _ in range(400)]
    values = json.loads(split_by("x").to_str())
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        part = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior}
        values["pre_tokenizer"]["pretokenizers"][0] = part | {"invert": False}
        path.write_text(json.dumps(values))
        hugging_face = Tokenizer.from_file(str(path))
        compare(hugging_face, path, [text for text in given if is_encoded(hugging_face, text)])
    replaces = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "_"}
    path.write_text(json.dumps(bytes_only() | {"normalizer": replaces}))
    hugging_face = Tokenizer.from_file(str(path))
    compare(hugging_face, path, [text for text in given if is_encoded(hugging_face, text)])


@pytest.mark.parametrize(
    "part",
    [
        {"type": "Digits", "individual_digits": False},
        {"type": "Whitespace"},
        *(
            {"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False}
            for r in (r"\d", r"\p{N}", r"\p{L}", r"\s", r"\w")
        ),
    ],
    ids=lambda part: str(part.get("pattern", part["type"])),
)
@pytest.mark.few(2)
def test_classes_of_characters(part: dict[str, Any], tmp_path: Path) -> None:
    """All characters, in the version of Unicode that Hugging Face's have for each pre-tokenizer."""
    vocabulary = {"[UNK]": 0, "a": 1, "##a": 2, "b": 3, "##b": 4}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    values = json.loads(tokenizer.to_str()) | {"pre_tokenizer": part}
    values["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": False}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(values))
    given = ["".join(f" aa{c}bb" for c in characters) for characters in parts_of(ALL)]
    compare(Tokenizer.from_file(str(path)), path, given)


@pytest.mark.parametrize("seed", range(0, 300, 50))
@pytest.mark.few(2)
def test_made_tokenizers(seed: int, tmp_path: Path) -> None:
    """Steps in unusual order, missing bytes, incomplete characters, overlapping tokens."""
    path = tmp_path / "tokenizer.json"
    compared = 0
    for number in range(seed, seed + 50):
        generator = Generator(number)
        path.write_text(json.dumps(generator.tokenizer()))
        given = [generator.text() for _ in range(15)]
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception:
            assert "the regular expression" in fail_of(path, given), number
            continue
        if any(word in path.read_text() for word in (r"\\G", r"\\K", "(?~")):
            continue
        if depends_on_a_start_that_goes(json.loads(path.read_text())):
            assert "behind a normalizer that may remove" in fail_of(path, given), number
            continue
        compare(tokenizer, path, [text for text in given if is_encoded(tokenizer, text)])
        compared += 1
    assert compared > 30


def depends_on_a_start_that_goes(made: dict[str, Any]) -> bool:
    """Tells whether Metaspace's prefix is for a text's start, which a replacement may remove."""
    removes = '"content": ""' in json.dumps(made.get("normalizer"))
    return removes and '"prepend_scheme": "first"' in json.dumps(made.get("pre_tokenizer"))


def is_encoded(tokenizer: Tokenizer, text: str) -> bool:
    """Tells whether Hugging Face's does not panic, which it does for an empty range of a text."""
    try:
        tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # Rust's panics are no exceptions.
        return False
    return True


def fail_of(path: Path, given: Sequence[str]) -> str:
    done = subprocess.run(
        [TOKENIZE, path],
        input="".join(f"{text}\0" for text in given).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout
    return done.stderr.decode()


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    ],
)
def test_characters_that_are_cut(decoder: dict[str, Any], tmp_path: Path) -> None:
    """Bytes without a token are omitted; incomplete characters are handled as in Hugging Face's."""
    path = tmp_path / "tokenizer.json"
    values = bytes_only() | {"decoder": decoder}
    is_byte_level = decoder["type"] == "ByteLevel"
    vocabulary = ALPHABET_OF_BYTES if is_byte_level else [f"<0x{b:02X}>" for b in range(256)]
    values["model"] |= {"vocab": {token: i for i, token in enumerate(vocabulary)}}
    values["model"] |= {"byte_fallback": not is_byte_level}
    for missing in ("\u0141", "Ģ", "<0x9F>", "<0x81>"):
        values["model"]["vocab"].pop(missing, None)
    path.write_text(json.dumps(values))
    compare(
        Tokenizer.from_file(str(path)), path, ["😀é中ā", "a😀", "ああÀ", "\U0001f600\U0001f601"]
    )


def nested(steps: list[dict[str, Any]], depth: int) -> dict[str, Any]:
    """A sequence of the steps, half of which are in a sequence of their own, and so on."""
    inner = steps if depth == 0 else [*steps[::2], nested(steps[1::2], depth - 1)]
    return {"type": "Sequence", "decoders": inner}


def test_the_number_of_decoders(tmp_path: Path) -> None:
    """Sequences in sequences count, too; their steps are in the same order as in one."""
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
    path = tmp_path / "tokenizer.json"
    for decoder in (nested([step] * 65, 0), nested([step] * 65, 4), nested([step] * 9_000, 0)):
        assert "has more than 64 decoders" in fail(path, bytes_only() | {"decoder": decoder})
    path.write_text(json.dumps(bytes_only() | {"decoder": nested([step] * 64, 0)}))
    assert subprocess.run([TOKENIZE, path], input=b"aba\0", check=False).returncode == 0
    letters = "abcdefgh"
    steps = [
        {"type": "Replace", "pattern": {"String": one}, "content": next_one}
        for one, next_one in itertools.pairwise(letters)
    ]
    values = bytes_only() | {"decoder": nested(steps, 3)}
    compare(Tokenizer.from_str(json.dumps(values)), path_of(path, values), ["abcdefgh", "hgfe"])


def path_of(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(json.dumps(values))
    return path


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


def test_damaged_replacements(tmp_path: Path) -> None:
    """A table with other bits gives other text, or an error, and reads nothing beside it."""
    path = tmp_path / "tokenizer.json"
    generator = random.Random(0)
    values, good = bytes_only(), table_of_sentencepiece()
    for _ in range(40):
        changed = bytearray(good)
        for _ in range(generator.choice([1, 1000])):
            changed[generator.randrange(len(good))] ^= 1 << generator.randrange(8)
        cut = bytes(changed[: generator.choice([len(good), generator.randrange(len(good))])])
        table = base64.b64encode(cut).decode()
        values["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}
        path.write_text(json.dumps(values))
        given = "\0".join([*texts(6)[:60], ""]).encode()
        done = subprocess.run([TOKENIZE, path], input=given, capture_output=True, timeout=60)
        assert done.returncode in (0, 1), table
        assert done.returncode == 0 or b"charsmap that is damaged" in done.stderr
