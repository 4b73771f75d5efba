"""Arguments of configurations whose default and `tiny_config`'s sizes do not fit each other."""

from __future__ import annotations

from typing import Any

# An encoder in the manner of Segment Anything.
_SAM = {
    "image_size": 64,
    "patch_size": 8,
    "output_channels": 16,
    "downsample_channels": [16, 32],
    "mlp_dim": 64,
    "window_size": 2,
    "global_attn_indexes": [1],
}
# Time, row and column turn so many pairs of a head each.
_MROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
# Convolutions of PP-OCR's detectors: their kernel's size, stride and padding.
_INTRACLASS = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    "vertical_long_to_small_conv_longratio": [[7, 1], [1, 1], [3, 0]],
    "vertical_long_to_small_conv_midratio": [[5, 1], [1, 1], [2, 0]],
    "vertical_long_to_small_conv_shortratio": [[3, 1], [1, 1], [1, 0]],
    "horizontal_small_to_long_conv_longratio": [[1, 7], [1, 1], [0, 3]],
    "horizontal_small_to_long_conv_midratio": [[1, 5], [1, 1], [0, 2]],
    "horizontal_small_to_long_conv_shortratio": [[1, 3], [1, 1], [0, 1]],
    "symmetric_conv_long_longratio": [[7, 7], [1, 1], [3, 3]],
    "symmetric_conv_long_midratio": [[5, 5], [1, 1], [2, 2]],
    "symmetric_conv_long_shortratio": [[3, 3], [1, 1], [1, 1]],
}

# Their backbone, with stages of one block.
_LCNET = {
    "model_type": "pp_lcnet_v4",
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
    "stem_channels": [3, 8, 16],
    "block_configs": [
        [[3, 16, 16, 1, True]],
        [[3, 16, 24, 2, False]],
        [[3, 24, 32, 2, False]],
        [[3, 32, 48, 2, False]],
    ],
}
# What its larger detectors have in common.
_DETECTOR = {
    "intraclass_block_config": _INTRACLASS,
    "scale_factor_list": [1, 2, 4, 8],
    "kernel_list": [3, 2, 2],
    "neck_out_channels": 32,
}

# By architecture: arguments of its configuration, and of those that it contains.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 320},
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
    "bros": {"hidden_size": 64},
    "chameleon": {
        "vocabulary_map": {"<image>": 4, **{f"IMGIMG{chr(65 + i)}Z": 8 + i for i in range(8)}},
        "vq_config": {
            "embed_dim": 32,
            "num_embeddings": 8,
            "latent_channels": 32,
            "resolution": 64,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
        },
    },
    "chmv2": {
        "backbone_config": {"return_class_token": True, "reshape_hidden_states": True},
        "post_process_channels": [8, 16, 24, 32],
    },
    "cohere_compass": {
        "text_config": {
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {"full_attention": _MROPE, "sliding_attention": _MROPE},
        }
    },
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"full_attention": _MROPE, "sliding_attention": _MROPE},
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "deepseek_ocr2": {
        "vision_config": {"sam_config": _SAM},
        "text_config": {"mlp_layer_types": ["dense", "sparse"]},
    },
    "depth_anything": {"reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 16, 24, 32]},
    "depth_pro": {
        "patch_size": 56,
        "intermediate_hook_ids": [1, 0],
        "fusion_hidden_size": 16,
        "intermediate_feature_dims": [16, 16],
        "scaled_images_feature_dims": [32, 32, 16],
    },
    "dpt": {
        "num_hidden_layers": 4,
        "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [8, 16, 24, 32],
        "fusion_hidden_size": 32,
    },
    "emu3": {
        "vocabulary_map": {
            "<image>": 4,
            "<|extra_200|>": 5,
            **{f"<|visual token {i:06d}|>": 8 + i for i in range(8)},
        },
        "vq_config": {
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "codebook_size": 8,
            "attn_resolutions": [3],
        },
    },
    "eomt": {"num_blocks": 1},
    "eomt_dinov3": {"num_blocks": 1},
    "esm": {"pad_token_id": 1, "mask_token_id": 3},
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
    "fun_asr_nano": {
        "adaptor_config": {"intermediate_size": 8, "projector_hidden_size": 64},
        "text_config": {"max_position_embeddings": 512},
    },
    "fuyu": {"image_size": 32, "patch_size": 8},
    "granite4_vision": {
        "spatial_target_layers": [],
        "deepstack_layer_map": [],
        "downsample_rate": "1/2",
        "image_grid_pinpoints": [[32, 64], [64, 64]],
    },
    "granite_speech": {
        "text_config": {"max_position_embeddings": 1024},
        "projector_config": {"encoder_hidden_size": 64},
    },
    "granite_speech_plus": {
        "text_config": {"max_position_embeddings": 1024},
        "projector_config": {"encoder_hidden_size": 64},
    },
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl": {"text_config": {"head_dim": 8}},
    "kimi_k25": {"projection_hidden_size": 32},
    "kimi_linear": {"num_experts_per_tok": 2},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8, "input_size": 32},
    "levit": {"image_size": 64, "patch_size": 16, "hidden_sizes": [32, 64, 96]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "lilt": {"hidden_size": 48},
    "llama4": {
        "vision_config": {
            "vision_output_dim": 64,
            "projector_input_dim": 64,
            "projector_output_dim": 64,
            "intermediate_size": 128,
        },
    },
    "lw_detr": {
        "backbone_config": {"image_size": 64, "num_windows": 4, "window_block_indices": [0]},
        "projector_scale_factors": [1.0],
        "decoder_self_attention_heads": 4,
        "decoder_cross_attention_heads": 4,
    },
    "lxmert": {
        "visual_feat_dim": 16,
        "l_layers": 1,
        "x_layers": 1,
        "r_layers": 1,
        "num_qa_labels": 8,
        "num_object_labels": 8,
        "num_attr_labels": 8,
    },
    "ministral": {"head_dim": 8},
    "mistral4": {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4},
    "mobilevitv2": {"image_size": 64},
    "molmo2": {
        "adapter_config": {
            "vision_feature_layer": [1, 0],
            "intermediate_size": 64,
            "text_hidden_size": 32,
        },
        "vision_config": {"image_size": [32, 32]},
    },
    "moonshine_streaming": {"num_key_value_heads": 4},
    "muse_glimmer": {"out_hidden_size": 128, "projector_hidden_size": 32},
    "nemo_speechlm": {
        "audio_config": {
            "asr_config": {"blank_token_id": 119},
            "diarization_config": {"head_config": {"audio_hidden_size": 32}},
        },
    },
    "nemotron": {"num_key_value_heads": 2},
    "nemotron3_diarization": {"head_config": {"audio_hidden_size": 32, "hidden_size": 32}},
    "neomme": {
        "rope_parameters": {
            "full_attention": {
                "rope_type": "default",
                "rope_theta": 1000000.0,
                "partial_rotary_factor": 0.5,
            },
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "partial_rotary_factor": 1.0,
            },
        },
    },
    "paddleocr_vl": {"text_config": {"rope_parameters": _MROPE}},
    "pix2struct": {"vision_config": {"patch_embed_hidden_size": 32, "d_kv": 8, "seq_len": 64}},
    "pp_doclayout_v2": {"class_thresholds": [0.5, 0.5], "class_order": [0, 1]},
    "pp_ocrv5_server_det": _DETECTOR,
    "pp_ocrv6_medium_det": _DETECTOR | {"backbone_config": _LCNET},
    "pp_ocrv6_small_det": {
        "backbone_config": _LCNET,
        "layer_list_out_channels": [16, 24, 32, 48],
        "neck_out_channels": 32,
    },
    "prompt_depth_anything": {"reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 16, 24, 32]},
    "qwen2_5_omni": {"enable_audio_output": False},
    "qwen3_asr": {"text_config": {"max_position_embeddings": 512}},
    "qwen3_omni_moe": {
        "enable_audio_output": False,
        "thinker_config": {"audio_config": {"output_dim": 32, "downsample_hidden_size": 16}},
    },
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
    "sapiens2": {"head_config": {"upsample_out_channels": [16], "conv_out_channels": [16]}},
    "step3p7": {"text_config": {"sliding_window": 16}},
    "unlimited_ocr": {
        "vision_config": {
            "sam_config": _SAM,
            "encoder_config": {"image_size": 16, "patch_size": 8},
        },
        "text_config": {"mlp_layer_types": ["dense", "sparse"]},
    },
    "vipllava": {"vision_feature_layer": [-1, -2]},
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

# By architecture: arguments of its target. The lengths of these are fixed, as code of the model
# that cuts or pools a text is traced for one length only.
_FIXED = {"dynamic": "false"}
OWN_ARGUMENTS: dict[str, dict[str, str]] = {
    "bros": _FIXED,
    "canine": _FIXED,
    "dbrx": _FIXED,
    "funnel": _FIXED,
    "led": _FIXED,
    "llama4_text": _FIXED,
    "longcat_flash": _FIXED,
    "longformer": _FIXED,
    "longt5": _FIXED,
    "mobilebert": _FIXED,
    "pegasus_x": _FIXED,
    "t5gemma2": _FIXED,
}
