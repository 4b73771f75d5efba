"""User text creates no special tokens, and has the same tokens in the runner and in Python."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from etllm.tokenizer.text import ChatTemplate
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.integration.runner.conversation import ConversationEncoder

TOKENIZE = Path("tests/integration/runner/tokenize").absolute()
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
# No special token stands between what is said, and spaces that belong to normalized ones.
PLAIN = "{% for m in messages %}[INST] {{ m.content }} [/INST] </s>{% endfor %}"
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|pad|>", "</s>")
WORDS = [*SPECIAL, "<think>", "<|im_", "end|>", "<", "|>", "a", "Hello", " ", "\n", "é", "🦊", "1"]


def tokenizer(normalizer: object = None, first: str = "", **flags: bool) -> Tokenizer:
    """A tokenizer whose special tokens include spaces, with an added token that is not special."""
    new_tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        new_tokenizer.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(r" ?\p{L}+|\p{N}|[^\s\p{L}]+|\s+"), "isolated")
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    new_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, by_bytes])
    if first:
        new_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=first)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[
            AddedToken("<|im_start|>", special=True, normalized=False),
            AddedToken("<|im_end|>", special=True, normalized=False, rstrip=True),
            AddedToken("<|pad|>", special=True, normalized=False, lstrip=True),
            AddedToken("</s>", special=True, **flags),
        ],
        initial_alphabet=sorted({*pre_tokenizers.ByteLevel.alphabet(), *"".join(WORDS), "▁"}),
        show_progress=False,
    )
    # Merges make no special token, as no model's do.
    new_tokenizer.train_from_iterator(
        ["Hello Hello, system user assistant ▁ im im_ pad end think"], trainer
    )
    new_tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return new_tokenizer


TOKENIZERS = {
    "bytes": tokenizer(normalized=False),
    "metaspace": tokenizer(first="first", normalized=False),
    "normalized": tokenizer(normalized=True),
    "prepended": tokenizer(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        normalized=True,
    ),
    "composed": tokenizer(normalizers.NFC(), normalized=True),
}


def said(seed: int) -> list[tuple[str, str]]:
    """System messages and prompts."""
    generator = random.Random(seed)

    def text() -> str:
        return "".join(generator.choices(WORDS, k=generator.randrange(1, 9)))

    return [("Be brief", "Hello"), *((text(), text()) for _ in range(150))]


def in_runner(path: Path, texts: list[str], *options: str) -> list[list[int]]:
    done = subprocess.run(
        [TOKENIZE, path, *options],
        input="".join(f"{text}\0" for text in texts).encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1:2]]


@pytest.mark.parametrize("template", [CHATML, PLAIN], ids=["chatml", "plain"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_runner_and_python_have_the_same_tokens(
    name: str, template: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    TOKENIZERS[name].save(str(path))
    chat = ChatTemplate({"chat_template": template})
    encoder = ConversationEncoder(TOKENIZERS[name], chat)
    with_special = ConversationEncoder(TOKENIZERS[name], chat, parse_special=True)
    texts, tokens, parsed = [], [], []
    for system, prompt in said(3):
        messages = [("system", system), ("user", prompt)]
        tokens.append(encoder.encode([{"role": r, "content": c} for r, c in messages]))
        parsed.append(with_special.encode([{"role": r, "content": c} for r, c in messages]))
        texts.append(chat.render([{"role": r, "content": f"\1{c}\1"} for r, c in messages]))
    assert in_runner(path, texts, "said") == tokens
    assert in_runner(path, [text.replace("\1", "") for text in texts]) == parsed
    assert tokens != parsed


NORMALIZERS = {
    "strip": normalizers.Strip(),
    "strip_right": normalizers.Strip(left=False),
    "start": normalizers.Replace(Regex(r"^\s+"), ""),
    "spaces": normalizers.Sequence(
        [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.NFKC()]
    ),
    "composed": normalizers.NFC(),
    "decomposed": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "prepended": normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁"), normalizers.Lowercase()]
    ),
    "bert": normalizers.BertNormalizer(),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_the_ends_of_user_text(name: str, tmp_path: Path) -> None:
    """A normalized special token changes nothing of how user text is normalized."""
    new_tokenizer = tokenizer(NORMALIZERS[name], normalized=True)
    path = tmp_path / "tokenizer.json"
    new_tokenizer.save(str(path))
    new_tokenizer.encode_special_tokens = True
    generator = random.Random(8)
    letters = ["a", "b", " ", "\t", "\r", "\u00a0", "e\u0301", "\u0344\u200d", "中", "</s>", "</S>"]
    texts = ["".join(generator.choices(letters, k=generator.randrange(1, 9))) for _ in range(500)]
    expected = [new_tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert in_runner(path, [f"\1{text}\1" for text in texts], "said") == expected


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_prompt_has_no_special_tokens(name: str) -> None:
    """Any message keeps the template's number of special tokens, and all of the text remains."""
    new_tokenizer = TOKENIZERS[name]
    special = {new_tokenizer.token_to_id(content) for content in SPECIAL}
    encoder = ConversationEncoder(new_tokenizer, ChatTemplate({"chat_template": CHATML}))
    for _, prompt in said(4):
        tokens = encoder.encode([{"role": "user", "content": prompt}])
        assert [new_tokenizer.id_to_token(t) for t in tokens if t in special] == [
            "<|im_start|>",
            "<|im_end|>",
            "<|im_start|>",
        ], prompt


def test_text_that_a_normalizer_makes_special(tmp_path: Path) -> None:
    """The text contains no characters of the token."""
    new_tokenizer = tokenizer(normalizers.Replace("¡", "<"), normalized=True)
    path = tmp_path / "tokenizer.json"
    new_tokenizer.save(str(path))
    number = new_tokenizer.token_to_id("</s>")
    messages = [{"role": "user", "content": "a¡/s>b"}]
    chat = ChatTemplate({"chat_template": "{{ messages[0].content }}</s>"})
    assert new_tokenizer.encode("a¡/s>b").ids.count(number) == 1
    tokens = ConversationEncoder(new_tokenizer, chat).encode(messages)
    assert tokens.count(number) == 1 and tokens[-1] == number
    assert in_runner(path, ["\1a¡/s>b\1</s>"], "said") == [tokens]
