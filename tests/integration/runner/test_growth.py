"""Each dimension of a file or a text grows tenfold: the work does, too, or the input is refused."""

from __future__ import annotations

import base64
import json
import resource
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

TOKENIZE = Path("tests/integration/runner/tokenize").absolute()
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
_SECONDS = 60
_MEMORY = 2 << 30


def tokenizer(extra: int = 0, **parts: Any) -> dict[str, Any]:
    """Bytes, and other parts."""
    tokens = [*BYTES, *(f"<{number}>" for number in range(extra))]
    return {
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []},
    } | parts


def split(pattern: str, times: int = 1) -> dict[str, Any]:
    part = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [part] * times})


def replaces(times: int) -> dict[str, Any]:
    part = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    return tokenizer(normalizer={"type": "Sequence", "normalizers": [part] * times})


def template(parts: int, ids: int) -> dict[str, Any]:
    single = [{"SpecialToken": {"id": "x", "type_id": 0}}] * parts
    return tokenizer(
        post_processor={
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, *single],
            "pair": [],
            "special_tokens": {"x": {"ids": [0] * ids}},
        }
    )


def colliding(count: int) -> dict[str, Any]:
    """Merges whose pairs are multiples of a hash table's usual sizes."""
    values = tokenizer()
    vocabulary = values["model"]["vocab"]
    first, rest = "a", [chr(0x4E00 + number) for number in range(count)]
    for number, token in enumerate(rest):
        vocabulary[token] = 1000 + number
        vocabulary[first + token] = 1000 + count + number
    values["model"]["merges"] = [[first, token] for token in rest]
    return values


def added(count: int, size: int) -> dict[str, Any]:
    """Added tokens with a common beginning."""
    tokens = [{"id": 256 + n, "content": "a" * (size + n) + "<>"} for n in range(count)]
    return tokenizer(added_tokens=tokens)


def long_names(size: int, count: int) -> dict[str, Any]:
    """A name that is part of the position of many values."""
    values = template(1, 1)
    values["post_processor"]["special_tokens"] = {"x" * size: {"ids": [0] * count}}
    values["post_processor"]["single"] = [{"SpecialToken": {"id": "x" * size, "type_id": 0}}] * 9
    return values


def precompiled() -> dict[str, Any]:
    table = base64.b64encode(struct.pack("<II", 4, 0)).decode()
    return tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": table})


def word_piece(text: str) -> dict[str, Any]:
    vocabulary = {"[UNK]": 0, text: 1, f"##{text}": 2}
    return tokenizer(
        pre_tokenizer=None,
        decoder={"type": "WordPiece"},
        model={"type": "WordPiece", "vocab": vocabulary, "max_input_chars_per_word": 10**9},
    )


def root(count: int, size: int) -> int:
    """A size of one of two dimensions that multiply: both grow, and their product does n times."""
    return round(size * count**0.5)


# Dimension to a file and a text of a size.
Make = Callable[[int], tuple[dict[str, Any], str]]
DIMENSIONS: dict[str, Make] = {
    "text": lambda n: (split(r"\p{L}+|\s+(?!\S)|\s+|\p{N}"), "ab 12  \n" * n * 1000),
    "back_reference": lambda n: (split(r"\A(a+?)\1b"), "a" * n * 10_000),
    "named_reference": lambda n: (split(r"\A(?i)(?<n>a+?)\k<n>b"), "a" * n * 10_000),
    "possessive": lambda n: (split("a++b"), "a" * n * 3_000),
    "atomic": lambda n: (split("(?>.*)b"), "a" * n * 3_000),
    "retries": lambda n: (split("(a|a)*b"), "a" * n * 100),
    "recursion": lambda n: (split(r"(?<n>a|b\g<n>c)+d"), "a" * n * 3_000),
    "clusters": lambda n: (split(r"\X"), "\U0001f1eb" * n * 2_000),
    "word_segments": lambda n: (split(r"(?y{w})\y"), "a\u0301\u0301" * n * 2_000),
    "flags": lambda n: (precompiled(), "\U0001f1eb" * n * 10_000),
    "marks": lambda n: (tokenizer(normalizer={"type": "NFC"}), "e" + "\u0301\u0323" * n * 1_000),
    "empty_matches": lambda n: (split("(?=a)"), "a" * n * 10_000),
    "pre_tokenizers": lambda n: (split(r"[^\p{L}\p{N}]", 20 * n), "abc" * 100),
    "pre_tokenizers_and_text": lambda n: (split("b", root(n, 10)), "a" * root(n, 10_000)),
    "classes_of_a_pattern": lambda n: (split(r"\p{L}?" * 20 * n, 100), "a"),
    "normalizers": lambda n: (replaces(3 * n), "a"),
    "template_parts": lambda n: (template(40 * n, 1_000), "a"),
    "template_ids": lambda n: (template(1_000, 40 * n), "a"),
    "merges": lambda n: (colliding(2_000 * n), "a\u4e00" * n * 1_000),
    "added_tokens": lambda n: (added(root(n, 30), 30), "a" * root(n, 3_000)),
    "size_of_added_tokens": lambda n: (added(30, root(n, 300)), "a" * root(n, 3_000)),
    "long_names": lambda n: (long_names(10_000 * n, 10_000 * n), "a"),
    "word": lambda n: (word_piece("a"), "a" * n * 10_000),
    "word_and_token": lambda n: (
        word_piece("a" * root(n, 1_000)),
        "a" * (root(n, 10_000) - 1),
    ),
    "private_use": lambda n: (
        tokenizer(
            added_tokens=[{"id": 256, "content": "[M]", "normalized": True, "special": True}],
            normalizer={"type": "NFC"},
        ),
        "".join(chr(0xF0000 + number) for number in range(n * 3_000)),
    ),
}


def measured(values: dict[str, Any], text: str, folder: Path) -> tuple[float, str]:
    """The seconds of a processor, and what is wrong with the input; "": nothing."""
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(values))
    given = folder / "texts"
    given.write_bytes(f"\1{text}\1\0".encode())

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with given.open("rb") as stream:
        mode = ["marked"] if "post_processor" in values else ["said"]
        done = subprocess.run(
            [TOKENIZE, path, *mode],
            stdin=stream,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            preexec_fn=limit,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = done.stderr.decode()
    assert done.returncode in (0, 1), done.returncode
    assert bool(said) == (done.returncode == 1) and said.count("\n") == done.returncode, said[:500]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.few(10)
def test_ten_times_as_much(dimension: str, tmp_path: Path) -> None:
    small, refused = measured(*DIMENSIONS[dimension](1), tmp_path)
    large, refused_large = measured(*DIMENSIONS[dimension](10), tmp_path)
    if refused or refused_large:
        assert "too long" in refused_large or "more than" in refused_large, refused_large[:500]
    else:
        # Sorting takes a logarithm, starting a constant; a square would take 100 times.
        assert large < 30 * small + 0.5, (small, large)


def test_ordinary_texts_are_far_from_the_limit(tmp_path: Path) -> None:
    """A megabyte of words, spaces, digits and flags in the patterns of common tokenizers."""
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    for piece in ("Hello world, it's 2026.\n", " ", "7", "\n", "\U0001f1eb", "中"):
        text = (piece * 1_000_000).encode()[:1_000_000].decode(errors="ignore")
        assert measured(split(pattern), text, tmp_path)[1] == "", piece
