"""Arguments of configurations whose default and `tiny_config`'s sizes do not fit each other."""

from __future__ import annotations

from typing import Any

# By architecture: arguments of its configuration, and of those that it contains.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [1, 1, 2],
        }
    },
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "kimi_linear": {"num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid"],
    },
    "zamba2": {
        "num_hidden_layers": 2,
        "layers_block_type": ["linear_attention", "hybrid"],
    },
}
