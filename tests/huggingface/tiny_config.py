"""A tiny configuration of any architecture of transformers, out of its default one."""

from __future__ import annotations

from typing import Any

import transformers
from own_sizes import OWN_SIZES

# Sizes by the names that configurations give them. Others keep their defaults.
_SIZES: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "emb_dim"), 32
    ),
    **dict.fromkeys(("projection_dim", "word_embed_proj_dim", "decoder_hidden_size"), 32),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
            "num_decoder_layers",
            "depth",
        ),
        2,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
        ),
        4,
    ),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_head_kv"), 2),
    **dict.fromkeys(("head_dim", "d_kv"), 8),
    **dict.fromkeys(
        (
            "intermediate_size",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "d_ff",
            "n_inner",
            "hidden_dim",
            "ffn_dim",
            "moe_intermediate_size",
            "shared_expert_intermediate_size",
        ),
        64,
    ),
    "vocab_size": 120,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 256),
    "max_source_positions": 32,
    "max_target_positions": 32,
    "image_size": 32,
    "patch_size": 8,
    "num_mel_bins": 16,
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_selected_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts"), 1),
    "first_k_dense_replace": 1,
    "num_kv_shared_layers": 0,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "sliding_window": 16,
    "num_queries": 10,
    "out_hidden_size": 32,
    "mm_tokens_per_image": 4,
    "rotary_dim": 8,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
# Of these, lists are as long as by default: of height and width, or of a network's stages.
_LISTS = {"image_size": 32, "patch_size": 8, "depths": 1, "num_heads": 4}
# These are required where the default is None.
_REQUIRED = (
    "vocab_size",
    "n_routed_experts",
    "n_shared_experts",
    "moe_intermediate_size",
    "num_experts_per_tok",
    "n_group",
    "topk_group",
)
# Of two layers.
_ATTENTION_TYPES = [[["global", "local"], 1]]
# Windows of attention, of which the last of four stages needs one.
_WINDOWED = {"window_size": 2, "image_size": 64}
# Networks whose widths and depths are scaled.
_SCALED = {"width_coefficient": 1.0, "depth_coefficient": 0.3}
# Instead of a network of timm, which is another library.
_BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
# Mamba's states: their heads have the width together.
_STATES = [("", "num_heads", "head_dim"), ("mamba_", "mamba_n_heads", "mamba_d_head")]
# Of configurations whose layers are of one kind by default, but need both.
_HYBRID = {"mamba_n_heads", "shared_intermediate_size"}
# Of layers of different kinds.
_MOST_LAYERS = 8
_TOKENS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    **dict.fromkeys(("image_token_id", "image_token_index"), 4),
}


def tiny_config(model_type: str) -> Any:
    """A small configuration of an architecture; raises what its class raises."""
    default = transformers.CONFIG_MAPPING[model_type]()
    config = type(default)(**_merged(_smaller(default), OWN_SIZES.get(model_type, {})))
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 3
    return config


def _merged(arguments: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Arguments with a configuration's own, and these in the configurations that it contains."""
    merged = arguments | own
    for name in own:
        if name in arguments and name.endswith("_config"):
            merged[name] = _merged(arguments[name], own[name])
    return merged


def _smaller(default: Any) -> dict[str, Any]:
    """Arguments for the configuration's class."""
    values = default.to_dict()
    arguments: dict[str, Any] = {}
    for name, size in _SIZES.items():
        given = values.get(name)
        is_missing = name in _REQUIRED and name in values and given is None
        is_large = isinstance(given, int) and not isinstance(given, bool) and given > size
        if is_missing or is_large:
            arguments[name] = size
    if "num_hidden_layers" in arguments:
        arguments["num_hidden_layers"] = _layers(default)
    arguments |= _of_kind(values)
    turned = values.get("rope_parameters") or {}
    ignored = getattr(default, "ignore_keys_at_rope_validation", None) or ()
    if "mrope_section" in turned or "mrope_section" in ignored:
        pairs = int(_SIZES["head_dim"] * turned.get("partial_rotary_factor", 1)) // 2
        arguments["rope_parameters"] = turned | {"mrope_section": [1, 1, pairs - 2]}
    heads = values.get("num_attention_heads")
    if values.get("num_key_value_heads") == 1:
        # Some classes' own default is another.
        arguments["num_key_value_heads"] = 1
    if "num_key_value_heads" in arguments and values["num_key_value_heads"] == heads:
        arguments["num_key_value_heads"] = _SIZES["num_attention_heads"]
    for name, token in _TOKENS.items():
        if isinstance(values.get(name), int):
            arguments[name] = token
    for name in default.sub_configs:
        inner = getattr(default, name, None)
        if inner is not None and inner.model_type.startswith("timm_"):
            arguments[name] = dict(_BACKBONE)
        elif inner is not None:
            kind = {"model_type": inner.model_type} if inner.model_type else {}
            arguments[name] = kind | _smaller(inner)
    if default.is_encoder_decoder and "decoder" in arguments:
        arguments["decoder"] |= {"is_decoder": True, "add_cross_attention": True}
    return arguments


def _layers(default: Any) -> int:
    """As many layers as have one of each kind; two at least, and where that takes many."""
    kinds = getattr(default, "layer_types", None) or []
    needed = max((kinds.index(kind) + 1 for kind in set(kinds)), default=2)
    return needed if 2 < needed <= _MOST_LAYERS else 2


def _of_kind(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments that configurations of some kinds of networks need."""
    arguments: dict[str, Any] = {
        name: [size] * len(values[name])
        for name, size in _LISTS.items()
        if isinstance(values.get(name), list | tuple)
    }
    if values.get("image_grid_pinpoints"):
        arguments["image_grid_pinpoints"] = [[32, 64], [64, 64]]
    if "deepstack_visual_indexes" in values:
        arguments["deepstack_visual_indexes"] = [0]
    if "attention_types" in values:
        arguments["attention_types"] = _ATTENTION_TYPES
    if "window_size" in values and "depths" in values:
        arguments |= _WINDOWED
    for prefix, heads, size in _STATES:
        if {f"{prefix}expand", heads, size} <= values.keys() and "mamba_d_ssm" not in values:
            arguments |= {f"{prefix}n_groups": 1, heads: 4}
            arguments[size] = _SIZES["hidden_size"] * values[f"{prefix}expand"] // 4
    if values.get("reshape_hidden_states") is False:
        arguments["reshape_hidden_states"] = False
    stages = values.get("out_features")
    if stages and "depths" in values:
        arguments["out_features"] = stages
    elif stages and "num_hidden_layers" in values:
        layers = max(2, len(stages))
        arguments["num_hidden_layers"] = layers
        arguments["out_features"] = [f"stage{i + 1}" for i in range(layers - len(stages), layers)]
    if "attn_layer_indices" in values:
        arguments["attn_layer_indices"] = [1]
    is_hybrid = values.keys() >= _HYBRID
    if is_hybrid and len(set(values.get("layer_types") or ())) == 1:
        arguments["layer_types"] = ["mamba", "attention"]
    if "width_coefficient" in values:
        arguments |= _SCALED | {"hidden_dim": values["hidden_dim"] // 2}
    return arguments
