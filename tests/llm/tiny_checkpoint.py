"""Writes a tiny checkpoint of a decoder with random weights, in Hugging Face's layout.

    tiny_checkpoint --family qwen3 --output DIR [--shards 2 | --adapter]

config.json, generation_config.json, .safetensors (with several shards an index), tokenizer.json and
tokenizer_config.json; or the two files of a LoRA adapter. The standard library is all that it
needs; the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, LAYERS, CONTEXT = 64, 4, 2, 16, 96, 2, 128
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SILU = {"hidden_act": "silu"}
_GELU = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
_WINDOW = {"sliding_window": 6}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
    "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}
# model_type to what its config.json says besides the sizes.
FAMILIES: dict[str, dict[str, Any]] = {
    "gemma": {"hidden_act": "gelu", "tie_word_embeddings": True, "head_dim": HEAD},
    "gemma2": _GELU
    | _WINDOW
    | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 24},
    "gemma3_text": _GELU
    | _WINDOW
    | {
        "query_pre_attn_scalar": 24,
        "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
        "sliding_window_pattern": 2,
    },
    "granite": _SILU
    | {
        "attention_multiplier": 0.3,
        "embedding_multiplier": 3.0,
        "logits_scaling": 2.0,
        "residual_multiplier": 0.7,
        "tie_word_embeddings": True,
    },
    "llama": _SILU | {"rope_theta": 500000.0, "rope_scaling": _LLAMA3},
    "mistral": _SILU | _WINDOW | {"head_dim": HEAD},
    "phi3": _SILU
    | {
        "original_max_position_embeddings": 64,
        "partial_rotary_factor": 0.75,
        "pad_token_id": 0,
        "rope_scaling": _LONGROPE,
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    "qwen2": _SILU | {"tie_word_embeddings": True, "use_sliding_window": False},
    "qwen3": _SILU | {"tie_word_embeddings": True, "head_dim": HEAD, "attention_bias": False},
    "smollm3": _SILU | {"no_rope_layers": [1, 0], "use_sliding_window": False, "pad_token_id": 0},
}
# The same for a family that et_llm does not have.
OTHERS: dict[str, dict[str, Any]] = {"ernie4_5": _SILU | {"use_bias": False}}
_CLASSES = {
    "ernie4_5": "Ernie4_5ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "granite": "GraniteForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}


def config(family: str, vocabulary: int) -> dict[str, Any]:
    """Values of a config.json."""
    return {
        "architectures": [_CLASSES[family]],
        "bos_token_id": vocabulary - 3,
        "eos_token_id": vocabulary - 1,
        "head_dim": HEAD,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": CONTEXT,
        "model_type": family,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "vocab_size": vocabulary,
    } | {**FAMILIES, **OTHERS}[family]


def shapes(family: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a checkpoint's tensors by name."""
    queries, keys = HEADS * HEAD, KV_HEADS * HEAD
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, WIDTH)}
    if not config(family, vocabulary)["tie_word_embeddings"]:
        found["lm_head.weight"] = (vocabulary, WIDTH)
    found["model.norm.weight"] = (WIDTH,)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if family in ("gemma2", "gemma3_text"):
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for layer in (f"model.layers.{i}." for i in range(LAYERS)):
        found |= {f"{layer}{norm}.weight": (WIDTH,) for norm in norms}
        attention, mlp = layer + "self_attn.", layer + "mlp."
        found[attention + "o_proj.weight"] = (WIDTH, queries)
        found[mlp + "down_proj.weight"] = (WIDTH, HIDDEN)
        if family == "phi3":
            found[attention + "qkv_proj.weight"] = (queries + 2 * keys, WIDTH)
            found[mlp + "gate_up_proj.weight"] = (2 * HIDDEN, WIDTH)
            continue
        for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            found[f"{attention}{name}.weight"] = (rows, WIDTH)
            if family == "qwen2":
                found[f"{attention}{name}.bias"] = (rows,)
        found |= {f"{mlp}{name}.weight": (HIDDEN, WIDTH) for name in ("gate_proj", "up_proj")}
        if family in ("qwen3", "gemma3_text"):
            found |= {f"{attention}{name}.weight": (HEAD,) for name in ("q_norm", "k_norm")}
    return found


def tokenizer() -> dict[str, Any]:
    """A tokenizer.json of byte-level tokens without merges."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    # GPT-2's letters for bytes: those that can be shown stand for themselves.
    letters = {b: chr(b) for b in kept}
    letters |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in kept)}
    vocabulary = {letters[b]: b for b in range(256)}
    added = [
        {
            "id": 256 + i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, token in enumerate(_SPECIAL)
    ]
    bytes_only = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": bytes_only,
        "post_processor": None,
        "decoder": bytes_only,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary | {token: 256 + i for i, token in enumerate(_SPECIAL)},
            "merges": [],
        },
    }


def write(family: str, folder: Path, shards: int = 1, seed: int = 0) -> None:
    """Writes a checkpoint.

    Args:
      family: a key of FAMILIES or OTHERS.
      folder: where to; it is made.
      shards: number of .safetensors files; from 2 on there is an index.
      seed: of the weights.
    """
    vocabulary = 256 + len(_SPECIAL)
    folder.mkdir(parents=True, exist_ok=True)
    _json(folder / "config.json", config(family, vocabulary))
    _json(folder / "generation_config.json", {"eos_token_id": [vocabulary - 3, vocabulary - 1]})
    _json(folder / "tokenizer.json", tokenizer())
    _json(
        folder / "tokenizer_config.json",
        {
            "bos_token": _SPECIAL[0],
            "chat_template": _TEMPLATE,
            "eos_token": _SPECIAL[2],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    names = sorted(shapes(family, vocabulary).items())
    files = ["model.safetensors"]
    if shards > 1:
        files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
        placed = {name: files[i % shards] for i, (name, _) in enumerate(names)}
        index = {"metadata": {}, "weight_map": placed}
        _json(folder / "model.safetensors.index.json", index)
    parts = [dict(names[i::shards]) for i in range(shards)]
    values = iter(_values(f"{family} {seed}", tuple(s for part in parts for s in part.values())))
    for file, part in zip(files, parts, strict=True):
        _safetensors(folder / file, part, values)


def write_adapter(family: str, folder: Path, rank: int = 4) -> None:
    """Writes a LoRA adapter of queries and values, in PEFT's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = ["q_proj", "v_proj"]
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": targets}
    _json(folder / "adapter_config.json", settings | {"bias": "none"})
    named: dict[str, tuple[int, ...]] = {}
    for i in range(LAYERS):
        for target, rows in zip(targets, (HEADS * HEAD, KV_HEADS * HEAD), strict=True):
            layer = f"base_model.model.model.layers.{i}.self_attn.{target}"
            named |= {
                f"{layer}.lora_A.weight": (rank, WIDTH),
                f"{layer}.lora_B.weight": (rows, rank),
            }
    values = iter(_values(f"{family} adapter", tuple(named.values())))
    _safetensors(folder / "adapter_model.safetensors", named, values)


@functools.cache
def _values(seed: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[bytes, ...]:
    """Random float32 values of tensors; once for all checkpoints that tests write in a process."""
    source = random.Random(seed)
    counts = [math.prod(shape) for shape in shapes]
    return tuple(
        struct.pack(f"<{count}f", *(source.gauss(0.0, 0.3) for _ in range(count)))
        for count in counts
    )


def _safetensors(path: Path, named: dict[str, tuple[int, ...]], values: Iterator[bytes]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, shape in named.items():
        start = len(data)
        data += next(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="tiny_checkpoint", description=__doc__.split("\n")[0])
    parser.add_argument("--family", choices=sorted([*FAMILIES, *OTHERS]), required=True)
    parser.add_argument("--output", type=Path, required=True, help="a folder")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--adapter", action="store_true", help="one for such a checkpoint")
    options = parser.parse_args(arguments)
    if options.adapter:
        write_adapter(options.family, options.output)
        return 0
    write(options.family, options.output, options.shards)
    return 0


if __name__ == "__main__":
    sys.exit(main())
