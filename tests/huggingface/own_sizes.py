"""Arguments of configurations whose default and `tiny_config`'s sizes do not fit each other."""

from __future__ import annotations

from typing import Any

# Time, row and column turn so many pairs of a head each.
_MROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
# By architecture: arguments of its configuration, and of those that it contains.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "aria": {
        "projector_patch_to_query_dict": {16: 4},
        "vision_config": {"patch_size": 8, "image_size": 32},
    },
    "bailing_hybrid": {
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "num_local_experts": 4,
        "layer_group_size": 2,
    },
    "chameleon": {"vocabulary_map": {"<image>": 4, **{f"IMGIMG{chr(65 + i)}Z": 8 + i for i in range(8)}}, "vq_config": {"embed_dim": 32, "num_embeddings": 8, "latent_channels": 32, "resolution": 64, "base_channels": 32, "channel_multiplier": [1, 1, 1, 1]}},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {"full_attention": _MROPE, "sliding_attention": _MROPE}},
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "emu3": {"vocabulary_map": {"<image>": 4, "<|extra_200|>": 5, **{f"<|visual token {i:06d}|>": 8 + i for i in range(8)}}, "vq_config": {"base_channels": 32, "channel_multiplier": [1, 1, 1, 1], "codebook_size": 8, "attn_resolutions": [3]}},
    "florence2": {
        "vision_config": {
            "depths": [1, 1, 1, 1],
            "embed_dim": [16, 16, 32, 32],
            "num_heads": [2, 2, 4, 4],
            "num_groups": [2, 2, 4, 4],
            "patch_size": [7, 3, 3, 3],
            "window_size": 2,
            "projection_dim": 32,
        },
    },
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl": {"text_config": {"head_dim": 8}},
    "kimi_k25": {"projection_hidden_size": 32},
    "kimi_linear": {"num_experts_per_tok": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "llama4": {
        "vision_config": {
            "vision_output_dim": 64,
            "projector_input_dim": 64,
            "projector_output_dim": 64,
            "intermediate_size": 128,
        },
    },
    "ministral": {"head_dim": 8},
    "molmo2": {
        "adapter_config": {
            "vision_feature_layer": [1, 0],
            "intermediate_size": 64,
            "text_hidden_size": 32,
        },
        "vision_config": {"image_size": [32, 32]},
    },
    "muse_glimmer": {"out_hidden_size": 128, "projector_hidden_size": 32},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp_text": {
        "hc_lowrank": 8,
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 8,
        "indexer_compress_ratio": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
    },
    "zamba2": {
        "num_hidden_layers": 2,
        "layers_block_type": ["linear_attention", "hybrid"],
    },
    "cohere_compass": {"text_config": {"layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {"full_attention": _MROPE, "sliding_attention": _MROPE}}},
    "paddleocr_vl": {"text_config": {"rope_parameters": _MROPE}},
    "step3p7": {"text_config": {"sliding_window": 16}},
    "vipllava": {"vision_feature_layer": [-1, -2]},
    "fuyu": {"image_size": 32, "patch_size": 8},
    "pix2struct": {"vision_config": {"patch_embed_hidden_size": 32, "d_kv": 8, "seq_len": 64}},
    "unlimited_ocr": {"vision_config": {"sam_config": {"image_size": 64, "patch_size": 8, "output_channels": 16, "downsample_channels": [16, 32], "mlp_dim": 64, "window_size": 2, "global_attn_indexes": [1]}, "encoder_config": {"image_size": 16, "patch_size": 8}}, "text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "t5gemma2": {},
    "perception_lm": {},
    "deepseek_ocr2": {"vision_config": {"sam_config": {"image_size": 64, "patch_size": 8, "output_channels": 16, "downsample_channels": [16, 32], "mlp_dim": 64, "window_size": 2, "global_attn_indexes": [1]}}, "text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "granite4_vision": {"spatial_target_layers": [], "deepstack_layer_map": [], "downsample_rate": "1/2", "image_grid_pinpoints": [[32, 64], [64, 64]]},
}
