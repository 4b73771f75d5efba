"""The models that docs/start/hugging-face.md names: small, with random weights, on a fake hub."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from fake_hub import FakeHub

_TOKENIZER = Path("models/llama_tokenizer")


def add_models(hub: FakeHub) -> None:
    """Adds a model for each id of the page; the chat has SmolLM2's real tokenizer."""
    tokenizer = {
        path.name: path.read_bytes() for path in sorted(_TOKENIZER.glob("tokenizer*.json"))
    }
    hub.add("HuggingFaceTB/SmolLM2-135M-Instruct", _files(_chat()) | tokenizer)
    hub.add("google/vit-base-patch16-224", _files(_classifier()))
    hub.add("openai/whisper-tiny", _files(_recognizer()))


def _chat() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        tie_word_embeddings=True,
    )
    return _seeded(transformers.LlamaForCausalLM, config)


def _classifier() -> Any:
    config = transformers.ViTConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        patch_size=16,
    )
    return _seeded(transformers.ViTForImageClassification, config)


def _recognizer() -> Any:
    config = transformers.WhisperConfig(
        vocab_size=120,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return _seeded(transformers.WhisperForConditionalGeneration, config)


def _seeded(model: Any, config: Any) -> Any:
    torch.manual_seed(0)
    return model(config)


def _files(model: Any) -> Mapping[str, bytes]:
    """The files of a model's checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
