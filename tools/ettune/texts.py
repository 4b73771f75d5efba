"""Texts that language models are measured with, as tokens."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbuild import BuildError, ModelSpec
from etlower.flags import Request

from ettune.sensitivity import Data, calibration_of, text_of


def read(spec: ModelSpec, request: Request) -> Data:
    """A request's text, in pieces that the model reads at once.

    Args:
      spec: the model.
      request: its `text`, the number of `tokens`, and the model's files.

    Raises:
      BuildError: it is not UTF-8, there is no tokenizer, or the model is no language model.
    """
    assert request.text is not None
    name = request.text.name
    try:
        text = request.text.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(
            f"{request.label}: {name} is not UTF-8: {error.reason}.", "Convert it."
        ) from error
    ids = tokenizer_of(None, request.data).encode(text, add_special_tokens=False).ids
    data = text_of(spec, ids[: request.tokens], name, request.label)
    return dataclasses.replace(data, calibration=calibration_of(spec, request))


def tokenizer_of(given: Path | None, data: Mapping[str, Path]) -> Any:
    """The user's tokenizer, or else the one among the model's files.

    Args:
      given: a tokenizer.json, or None.
      data: the model's files by path in the workspace.

    Raises:
      BuildError: there is none, or it cannot be read.
    """
    import etllm

    # A model's own copy of the package, which is imported first, may lack the tokenizer.
    etllm.__path__ = pkgutil.extend_path([*etllm.__path__], "etllm")
    from etllm.tokenizer import tokenizer_from_gguf
    from etllm.tokenizer.text import load_tokenizer

    own = [p for p in data.values() if p.name == "tokenizer.json"]
    weights = [p for p in data.values() if p.suffix == ".gguf"]
    if given or own:
        return load_tokenizer(given or own[0])
    if weights:
        metadata = tokenizer_from_gguf.read_metadata(weights[0])
        return tokenizer_from_gguf.build_tokenizer(metadata, weights[0].name)
    raise BuildError(
        "No tokenizer among the model's files: got neither tokenizer.json nor .gguf.",
        "Give the model one in data, or the command one with --tokenizer tokenizer.json.",
    )
