"""Keys of upstream's LlmConfig that have an effect here, and why the others have none."""

from __future__ import annotations

_IN_BUILD = "Remove the key."

# Each is read by settings.py, entry.py, attention_options.py or a backend's *_llm.py.
HONORED = frozenset(
    {
        "base.checkpoint",
        "base.metadata",
        "base.model_class",
        "base.params",
        "debug.generate_full_logits",
        "export.max_context_length",
        "export.max_seq_length",
        "model.dtype_override",
        "model.enable_dynamic_shape",
        # The tables of the rotary embedding are expanded in any case.
        "model.expand_rope_table",
        "model.local_global_attention",
        "model.static_quantize_kv_cache",
        "model.static_quantize_kv_cache_scale",
        "model.use_kv_cache",
        # Attention reads the tokens so far in any case.
        "model.use_sdpa_with_kv_cache",
        "multimethod.methods.*.export_seq_len",
        "multimethod.methods.*.lora_config.adapter_checkpoint",
        "multimethod.methods.*.lora_config.adapter_config",
        "multimethod.methods.*.method_name",
        "multimethod.share_mutable_buffers",
        "quantization.embedding_quantize",
        "quantization.group_size",
        "quantization.pt2e_quantize",
        "quantization.qmode",
        "quantization.quantize_scope",
        "quantization.use_hqq",
        "quantization.use_spin_quant",
    }
    | {f"backend.coreml.{key}" for key in ("compute_units", "enabled", "ios", "quantize")}
    | {
        f"backend.ethosu.{key}"
        for key in ("enabled", "extra_flags", "memory_mode", "system_config", "target")
    }
    | {"backend.mlx.enabled"}
    | {f"backend.openvino.{key}" for key in ("device", "enabled", "nncf_compression_group_size")}
    | {f"backend.qnn.{key}" for key in ("enabled", "soc_model")}
    | {f"backend.tosa.{key}" for key in ("enabled", "version")}
    | {f"backend.vgf.{key}" for key in ("compile_spec", "enabled", "quantize_scope")}
    | {f"backend.vulkan.{key}" for key in ("enabled", "force_fp16")}
    | {f"backend.xnnpack.{key}" for key in ("enable_bf16", "enabled", "extended_ops")}
)

# Of these, the ones that change layers of et_llm, and nothing of those of transformers.
OF_REPLACEMENTS = frozenset(
    {
        "base.model_class",
        "base.params",
        "model.local_global_attention",
        "model.static_quantize_kv_cache",
        "model.static_quantize_kv_cache_scale",
        "multimethod.methods.*.lora_config",
        "multimethod.methods.*.lora_config.adapter_checkpoint",
        "multimethod.methods.*.lora_config.adapter_config",
        "quantization.use_spin_quant",
    }
)

# Key or section to why not, and what to do instead.
REASONS: dict[str, tuple[str, str]] = {
    "backend": (
        "the recipe of the backend has nothing like it",
        "Remove the key, or write a recipe of your own and give it in recipes.",
    ),
    "backend.openvino": (
        "these methods of NNCF need data while they compress",
        "Remove the key; OpenVINO's recipes compress weights without data.",
    ),
    "backend.qnn": (
        "it changes upstream's own attention, which programs here don't have",
        "Remove the key.",
    ),
    "backend.torchao": (
        "it needs torchao's own kernels, which ExecuTorch's runtime in the wheel lacks",
        "Remove the section.",
    ),
    "base.lora_config": (
        "adapters are files of the target",
        'Give et_llm adapters = {"name": [its two files]}, or name it in multimethod.methods.',
    ),
    "base.preq_mode": (
        "upstream's own format for it is read by its export_llm alone",
        "Take a checkpoint in floats or of torchao, or a GGUF file.",
    ),
    "base.tokenizer_path": (
        "the tokenizer is a file of the target",
        "Give et_llm tokenizer = [tokenizer.json, tokenizer_config.json], and remove the key.",
    ),
    "base.use_lora": (
        "it is for training with quantization",
        'Give et_llm adapters = {"name": [its two files]}.',
    ),
    "debug": ("a build has its own ways for this", _IN_BUILD),
    "debug.generate_etrecord": (
        "each program has one without being told",
        "Build the output group: --output_groups=etrecord.",
    ),
    "debug.profile_path": (
        "each program's report has the seconds of each stage",
        "Build the output group: --output_groups=report.",
    ),
    "export": ("Bazel decides on outputs", _IN_BUILD),
    "export.export_only": (
        "a program is what is built",
        "Build the output group: --output_groups=lowered.",
    ),
    "export.foundation_weights_file": (
        "Bazel decides on names of outputs",
        "Give et_llm foundation = True: all programs of a backend then share one .ptd.",
    ),
    "export.lora_weights_file": (
        "Bazel decides on names of outputs",
        "Give et_llm foundation = True: each adapter's weights are then in a .ptd of its own.",
    ),
    "export.so_library": (
        "libraries with operators are not loaded while lowering",
        "Write a recipe of your own and give it in recipes.",
    ),
    "model.input_prune_map": ("vocabularies are not pruned", _IN_BUILD),
    "model.output_prune_map": ("vocabularies are not pruned", _IN_BUILD),
    "model.quantize_kv_cache": (
        "with upstream's operators for it a program writes a tenth of the tokens that it writes "
        "with a cache of floats",
        'Remove the key; dtype_override: "fp16" halves the cache.',
    ),
    "model.use_attention_sink": (
        "it needs a runner that counts positions beyond the context; here a conversation ends when "
        "its context is full",
        "Remove the key, and raise export.max_context_length.",
    ),
    "model.use_shared_embedding": (
        "it needs torchao's own kernels, which ExecuTorch's runtime in the wheel lacks",
        _IN_BUILD,
    ),
    "model.use_moe_quantized_op": (
        "upstream's operator is for its own decoder, and et_llm builds mixtures of experts with "
        "the code of transformers",
        "Remove the key.",
    ),
    "multimethod.methods.*.lora_config": (
        "the adapter's own adapter_config.json says it",
        "Remove the key, and give adapter_config.",
    ),
    "quantization": (
        "upstream calibrates with lm_eval, which downloads its data; here the example inputs do",
        "Remove the key; for a recipe with its own calibration use recipes = {…}.",
    ),
    "quantization.use_qat": (
        "it reads weights that a training has quantized; here a build trains floats for the "
        "recipe, and quantizes them",
        "Train with et_trained_checkpoint or ettune.qat, and give et_program the checkpoint and "
        'quantize = "qat".',
    ),
}

# Values of keys that have an effect; "…": whatever follows.
VALUES: dict[str, tuple[str, str]] = {
    "quantization.qmode: 8da4w-gptq": (
        "upstream's own code for it is gone: its export_llm ends with an error, too",
        'Take "8da4w"; use_hqq, the default, chooses scales without data.',
    ),
    "quantization.qmode: torchao:8da…": (
        "it needs torchao's own kernels, which ExecuTorch's runtime in the wheel lacks",
        'Take "8da4w" with XNNPACK.',
    ),
    "quantization.qmode: torchao:fpa…": (
        "it needs torchao's own operators for Apple's GPUs, which no wheel has",
        'Take "8da4w" or "4w".',
    ),
    "quantization.use_spin_quant: cuda": (
        "it needs operators of NVIDIA's GPUs, which ExecuTorch's runtime lacks",
        'Take "native".',
    ),
}
