"""Tiny configurations of transformers' architectures, one for each kind of program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from etbuild import ModelContext

VOCABULARY, LENGTH = 99, 48
_TRANSFORMER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
# Without a cache a second layer repeats the first.
_ENCODER = _TRANSFORMER | {"num_hidden_layers": 1}
_TEXT = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH}
_DECODER = _TRANSFORMER | _TEXT | {"num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
_AUDIO = {
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
_SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}


def config(name: str) -> Any:
    """A configuration by the name of an architecture."""
    configs = {
        "bert": lambda: hf.BertConfig(**_ENCODER, **_TEXT),
        "roberta": lambda: hf.RobertaConfig(**_ENCODER, **_TEXT),
        "layoutlm": lambda: hf.LayoutLMConfig(**_ENCODER, **_TEXT),
        "vit": lambda: hf.ViTConfig(**_ENCODER, image_size=32, patch_size=8),
        "yolos": lambda: hf.YolosConfig(**_ENCODER, image_size=[32, 48], patch_size=8),
        "hubert": lambda: hf.HubertConfig(**_ENCODER, **_AUDIO, vocab_size=VOCABULARY),
        # It slices its table of positions.
        "bert decoder": lambda: hf.BertConfig(
            **_TRANSFORMER, **_TEXT, is_decoder=True, bos_token_id=1, eos_token_id=2
        ),
        "llama": lambda: hf.LlamaConfig(**_DECODER),
        # A window that is shorter than the conversation.
        "mixtral": lambda: hf.MixtralConfig(**_DECODER, num_local_experts=4, sliding_window=6),
        # States only; states and attention in turns.
        "mamba": lambda: hf.MambaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            state_size=4,
            bos_token_id=1,
            eos_token_id=2,
        ),
        "qwen3_next": lambda: hf.Qwen3NextConfig(
            **_DECODER,
            head_dim=8,
            layer_types=["linear_attention", "full_attention"],
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            decoder_sparse_step=1000,
            mlp_only_layers=[0, 1],
        ),
        "t5": lambda: hf.T5Config(
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            vocab_size=VOCABULARY,
            decoder_start_token_id=0,
        ),
        # Of two configurations; the decoder slices its table of positions.
        "vision-encoder-decoder": lambda: hf.VisionEncoderDecoderConfig(
            encoder={"model_type": "vit", **_ENCODER, "image_size": 32, "patch_size": 8},
            decoder={
                "model_type": "bert",
                **_TRANSFORMER,
                **_TEXT,
                "is_decoder": True,
                "add_cross_attention": True,
            },
            decoder_start_token_id=1,
        ),
        "whisper": lambda: hf.WhisperConfig(
            **_SEQ2SEQ, max_source_positions=20, max_target_positions=LENGTH, num_mel_bins=8
        ),
    }
    return configs[name]()


def checkpoint(name: str, class_name: str, folder: Path) -> Any:
    """Writes a checkpoint with random weights to a folder, and returns the model."""
    torch.manual_seed(0)
    configuration = config(name)
    configuration._attn_implementation = "eager"
    model = getattr(hf, class_name)(configuration).eval()
    # Those that transformers draws are so small that most errors would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    model.save_pretrained(folder)
    return model


def context(folder: Path, **args: str) -> ModelContext:
    """The context of a target whose data are a folder's files."""
    return ModelContext(args, {f"m/{path.name}": path for path in folder.iterdir()}, "//m:net")
