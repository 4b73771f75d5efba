"""Makes a Hugging Face tokenizer.json from the tokenizer inside a GGUF file.

    python -m etllm.tokenizer.tokenizer_from_gguf --gguf model.gguf --output tokenizer.json \
        --config tokenizer_config.json --chat_format chat_format.json

The same file gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
from etbuild import BuildError, check_gguf
from etbuild.command import tool_main
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from etllm.tokenizer.chat_format import write_chat_format

_PREFIX = "tokenizer.ggml."
_FETCH_AGAIN = "Fetch the file again, or name another GGUF file."
# Values of GGUF's token_type.
_CONTROL, _USER_DEFINED = 3, 4
# GGUF's name of a pre-tokenizer to whether it splits digits one by one.
_SPLITS_DIGITS = {"gpt-2": False, "smollm": True}


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a GGUF file by key, without those of its tensors.

    Raises:
      BuildError: the file is missing or incomplete.
    """
    try:
        check_gguf(path)
        fields = gguf.GGUFReader(path).fields
        return {key: field.contents() for key, field in fields.items()}
    except BuildError:
        raise
    except Exception as error:  # The reader may raise anything for a damaged file.
        size = path.stat().st_size
        raise BuildError(
            f"{path}: it is not a complete GGUF file: {size} bytes that cannot be read "
            f"({type(error).__name__}: {error}).",
            _FETCH_AGAIN,
        ) from None


def build_tokenizer(metadata: Mapping[str, Any], where: str) -> Tokenizer:
    """The tokenizer that the metadata describe.

    Args:
      metadata: values by key, "tokenizer.ggml.tokens" and so on.
      where: name of the file, for messages.

    Returns:
      A byte-level BPE tokenizer.

    Raises:
      BuildError: it is of another kind, or its parts do not fit together.
    """
    kind = metadata.get(f"{_PREFIX}model")
    if kind != "gpt2":
        raise BuildError(
            f'{where}: {_PREFIX}model: got {kind!r}, expected "gpt2" (byte-level BPE).',
            "Take the tokenizer.json that comes with the original model.",
        )
    split = metadata.get(f"{_PREFIX}pre")
    if split not in _SPLITS_DIGITS:
        raise BuildError(
            f"{where}: {_PREFIX}pre: got {split!r}, expected one of: {', '.join(_SPLITS_DIGITS)}.",
            "Take the tokenizer.json that comes with the original model.",
        )
    tokens, merges = _strings(metadata, "tokens", where), _strings(metadata, "merges", where)
    types = metadata.get(f"{_PREFIX}token_type") or [1] * len(tokens)
    if not isinstance(types, list):
        raise BuildError(
            f"{where}: {_PREFIX}token_type: got {types!r}, expected a list.", _FETCH_AGAIN
        )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens) or len(types) != len(tokens):
        raise BuildError(
            f"{where}: got {len(vocabulary)} different tokens and {len(types)} types, expected "
            f"{len(tokens)} of each.",
            _FETCH_AGAIN,
        )
    pairs = [tuple(merge.split(" ")) for merge in merges]
    wrong = next((pair for pair in pairs if not _fits(pair, vocabulary)), None)
    if wrong is not None:
        raise BuildError(
            f'{where}: {_PREFIX}merges: "{" ".join(wrong)}" does not join two tokens into a third.',
            _FETCH_AGAIN,
        )
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=bool(_prefix_space(metadata)))
    digits = [pre_tokenizers.Digits(individual_digits=True)] if _SPLITS_DIGITS[split] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    for token, type_ in zip(tokens, types, strict=True):
        if type_ in (_CONTROL, _USER_DEFINED):
            special = type_ == _CONTROL
            tokenizer.add_tokens([AddedToken(token, special=special, normalized=False)])
    return tokenizer


def build_config(metadata: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Special tokens and the chat template, with the names of a `tokenizer_config.json`.

    Args:
      metadata: as in `build_tokenizer`.
      where: name of the file, for messages.

    Returns:
      Values for JSON; without what the file does not say.

    Raises:
      BuildError: a special token has a number that the vocabulary lacks.
    """
    tokens = _strings(metadata, "tokens", where)
    ids = {
        name: metadata.get(f"{_PREFIX}{key}_token_id")
        for name, key in {
            "bos": "bos",
            "eos": "eos",
            "eot": "eot",
            "eom": "eom",
            "pad": "padding",
            "unk": "unknown",
        }.items()
    }
    for name, number in ids.items():
        if number is not None and not (isinstance(number, int) and 0 <= number < len(tokens)):
            raise BuildError(
                f"{where}: the {name} token: got {number}, expected a number below {len(tokens)}.",
                _FETCH_AGAIN,
            )
    ends = {ids[name] for name in ("eos", "eot", "eom")} - {None}
    values = {
        "add_bos_token": bool(metadata.get(f"{_PREFIX}add_bos_token", False)),
        "chat_template": metadata.get("tokenizer.chat_template"),
        "eos_token_ids": sorted(ends),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    for name in ("bos", "eos", "pad", "unk"):
        number = ids[name]
        values[f"{name}_token_id"] = number
        values[f"{name}_token"] = None if number is None else tokens[number]
    return {key: value for key, value in sorted(values.items()) if value is not None}


def _strings(metadata: Mapping[str, Any], name: str, where: str) -> list[str]:
    values = metadata.get(f"{_PREFIX}{name}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BuildError(
            f"{where}: {_PREFIX}{name}: got {type(values).__name__}, expected a list of strings.",
            "Take a GGUF file that was written with its tokenizer.",
        )
    return values


def _prefix_space(metadata: Mapping[str, Any]) -> bool:
    return metadata.get(f"{_PREFIX}add_space_prefix", False)


def _fits(pair: Sequence[str], vocabulary: Mapping[str, int]) -> bool:
    return len(pair) == 2 and {*pair, "".join(pair)} <= vocabulary.keys()


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the tokenizer's files."""
    parser = argparse.ArgumentParser(prog="tokenizer_from_gguf", description=__doc__.split("\n")[0])
    parser.add_argument("--gguf", type=Path, required=True, help="the model's file")
    parser.add_argument("--output", type=Path, required=True, help="tokenizer.json to write")
    parser.add_argument("--config", type=Path, help="tokenizer_config.json to write")
    parser.add_argument("--chat_format", type=Path, help="chat_format.json to write")
    options = parser.parse_args(arguments)
    metadata = read_metadata(options.gguf)
    tokenizer = build_tokenizer(metadata, str(options.gguf))
    config = build_config(metadata, str(options.gguf))
    options.output.write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    if options.config:
        text = json.dumps(config, ensure_ascii=False, indent=2, sort_keys=True)
        options.config.write_text(text + "\n", encoding="utf-8")
    if options.chat_format:
        write_chat_format(config, options.gguf.name, options.chat_format)


if __name__ == "__main__":
    sys.exit(main())
