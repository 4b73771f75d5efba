"""Checkpoints in three layouts: what they are made of, their weights, and errors."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
import tiny_checkpoint
import torch
from etbuild import BuildError, ModelContext
from etllm import decoder, entry, source_transforms
from etllm.checkpoint import open_checkpoint
from etllm.hf_config import Sizes, architecture
from etllm.json_values import JsonValues
from etllm.replacements import NotReplaced
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from safetensors.torch import load_file, save_file

YAML = """
model:
  use_kv_cache: true
export:
  max_seq_length: 16
  max_context_length: 32
"""
TOKENS = torch.tensor([[3, 170, 8, 30, 2, 25, 111, 5, 19]])


@pytest.fixture
def folder(tmp_path: Path):
    """A function from a family to the folder of a fresh checkpoint with a YAML file."""

    def make(family: str, shards: int = 1, yaml: str = YAML) -> Path:
        place = tmp_path / family
        tiny_checkpoint.write(family, place, shards)
        (place / "llm.yaml").write_text(yaml)
        return place

    return make


def build(folder: Path, **args: str) -> Any:
    files = {f"m/{path.name}": path for path in folder.iterdir()}
    return entry.build(ModelContext({"backends": "portable"} | args, files, "//m:llm"))


def logits(spec: Any, tokens: torch.Tensor = TOKENS) -> torch.Tensor:
    with torch.no_grad():
        return spec.methods["forward"].module(tokens, torch.tensor([0]))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def failure(folder: Path, **args: str) -> str:
    with pytest.raises(BuildError) as caught:
        build(folder, **args)
    return str(caught.value)


def test_shards_give_what_one_file_gives(folder):
    place = folder("qwen3", shards=3)
    several = logits(build(place))
    merged: dict[str, torch.Tensor] = {}
    for shard in sorted(place.glob("*.safetensors")):
        merged |= load_file(shard)
        shard.unlink()
    (place / "model.safetensors.index.json").unlink()
    save_file(merged, place / "model.safetensors")
    torch.testing.assert_close(logits(build(place)), several)


@pytest.mark.parametrize("family", ["llama", "phi3", "qwen2", "qwen3"])
def test_layers_compute_what_upstreams_own_do(folder, family):
    """The same weights in upstream's attention, which source transforms begin with."""
    place = folder(family)
    ours = build(place)
    files = {f"m/{path.name}": path for path in place.iterdir()}
    checkpoint = open_checkpoint(ModelContext({}, files, "//m:llm"), Sizes(context=32, most=16))
    arch = checkpoint.architecture
    theirs = decoder.assign(source_transforms.construct(arch), checkpoint.weight)
    settings = entry.read_settings(files, "//m:llm")
    theirs = source_transforms.transform(theirs, arch, [], settings)
    layers = [ours.methods["forward"].module.transformer.layers[0], theirs.layers[0]]
    kinds = [type(layer.attention).__name__ for layer in layers]
    assert kinds == ["PrefixAttention", "AttentionMHA"]
    with torch.no_grad():
        got = source_transforms.UpstreamCausalLM(theirs)(TOKENS, torch.tensor([0]))
    torch.testing.assert_close(got, logits(ours), atol=1e-4, rtol=1e-4)


def test_transforms_need_upstreams_transformer(folder):
    more = "use_kv_cache: true\n  static_quantize_kv_cache: true\n  enable_dynamic_shape: false"
    text = failure(folder("gemma3_text", yaml=YAML.replace("use_kv_cache: true", more)))
    assert text.startswith("m/llm.yaml:4: model.static_quantize_kv_cache: got true, expected false")
    assert "lacks an activation other than silu and scaled embeddings and norms after" in text


def test_a_quantized_cache_is_refused(folder):
    yaml = YAML.replace("use_kv_cache: true", "use_kv_cache: true\n  quantize_kv_cache: true")
    text = failure(folder("qwen3", yaml=yaml))
    assert text.startswith(
        "m/llm.yaml:4: model.quantize_kv_cache: got true, which is not supported"
    )
    assert "a tenth of the tokens" in text


@pytest.mark.parametrize("backends", ["vulkan", "portable,vulkan", ""])
def test_backends_with_fixed_sizes_read_the_whole_cache(folder, backends):
    more = "backend:\n  vulkan:\n    enabled: true\n" if "vulkan" in backends else ""
    spec = build(folder("qwen3", yaml=YAML + more), backends=backends)
    layer = spec.methods["forward"].module.transformer.layers[0]
    assert type(layer.attention).__name__ == "GroupedAttention"


def test_windows_of_the_file_apply(folder):
    windows = "use_kv_cache: true\n  local_global_attention: [0, 3]"
    place = folder("qwen3", yaml=YAML.replace("use_kv_cache: true", windows))
    narrow = build(place)
    (place / "llm.yaml").write_text(YAML)
    wide = build(place)
    assert torch.equal(logits(narrow, TOKENS[:, :3]), logits(wide, TOKENS[:, :3]))
    assert not torch.allclose(logits(narrow), logits(wide), atol=1e-2)


@pytest.mark.parametrize(
    ("choice", "tolerance"), [("8,32", 0.1), ("8,0", 0.2), ("4,32", 2.0), ("4,0", 3.0)]
)
def test_quantized_embeddings_are_near(folder, choice, tolerance):
    place = folder("qwen3")
    exact = logits(build(place))
    (place / "llm.yaml").write_text(f"{YAML}quantization:\n  embedding_quantize: {choice}\n")
    near = logits(build(place))
    assert not torch.equal(near, exact)
    assert (near - exact).abs().max() < tolerance


@pytest.mark.parametrize("choice", ["3,32", "8", "8,48", "torchao:8,32"])
def test_embeddings_that_fit_no_form(folder, choice):
    yaml = f"{YAML}quantization:\n  embedding_quantize: {choice}\n"
    text = failure(folder("qwen3", yaml=yaml))
    assert text.startswith("m/llm.yaml:8: quantization.embedding_quantize: got")


def test_metadata_comes_from_the_checkpoint_and_the_file_goes_before(folder):
    place = folder("llama")
    found = build(place).constant_methods
    assert found["get_eos_ids"] == [256, 258]  # generation_config.json
    assert found["get_bos_id"] == 256
    assert (found["get_max_seq_len"], found["get_max_context_len"]) == (16, 32)
    assert (found["get_vocab_size"], found["get_n_layers"]) == (259, 2)
    (place / "llm.yaml").write_text(YAML + "base:\n  metadata: '{\"get_eos_ids\": [7]}'\n")
    assert build(place).constant_methods["get_eos_ids"] == [7]


def test_layers_cut_the_model(folder):
    spec = build(folder("gemma2"), layers="1")
    assert spec.constant_methods["get_n_layers"] == 1
    assert "got 2, expected at least layers (3) of the target" in failure(
        folder("gemma2"), layers="3"
    )


def test_methods_have_one_module(folder):
    yaml = YAML + (
        "multimethod:\n  share_mutable_buffers: true\n  methods:\n"
        "    - method_name: prefill_8\n    - method_name: decode\n      export_seq_len: 1\n"
    )
    spec = build(folder("gemma3_text", yaml=yaml))
    assert spec.methods["prefill_8"].module is spec.methods["decode"].module
    assert spec.constant_methods["get_max_seq_len"] == 8
    assert spec.constant_methods["enable_dynamic_shape"] is False


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"num_hidden_layers": 10**9},
            '"num_hidden_layers": got 1000000000, expected at most 4096',
        ),
        ({"hidden_size": "64"}, '"hidden_size": got "64", expected a whole number'),
        ({"num_key_value_heads": 3}, "expected a divisor of num_attention_heads (4)"),
        ({"max_position_embeddings": 16}, "expected at least export.max_context_length (32)"),
        ({"intermediate_size": 100}, "got shape (96, 64), expected (100, 64)"),
        ({"num_hidden_layers": 1}, "9 tensors of the checkpoint are not part of a model of the"),
        ({"num_hidden_layers": 3}, 'expected a tensor "model.layers.2.self_attn.q_proj.weight"'),
    ],
)
def test_configurations_that_are_not_supported(folder, values, expected):
    place = folder("mistral")
    change(place / "config.json", **values)
    assert expected in failure(place)


@pytest.mark.parametrize(
    ("values", "feature"),
    [
        ({"model_type": "mixtral"}, '"model_type": "mixtral"'),
        ({"attention_bias": True}, '"attention_bias": true'),
        ({"quantization_config": {"bits": 4}}, '"quantization_config": {"bits": 4}'),
        ({"rope_scaling": {"rope_type": "yarn"}}, '"rope_scaling": "rope_type": "yarn"'),
        ({"partial_rotary_factor": 0.5}, '"partial_rotary_factor": 0.5'),
        ({"hidden_act": "relu2"}, '"hidden_act": "relu2"'),
    ],
)
def test_what_own_layers_lack_is_named(folder, values, feature):
    path = folder("mistral") / "config.json"
    change(path, **values)
    with pytest.raises(NotReplaced) as caught:
        architecture(JsonValues.read(path, "config.json"), None, Sizes(context=32, most=8))
    assert caught.value.feature == f"config.json: {feature}"


def test_a_target_without_the_packages_of_transformers_says_so(folder, monkeypatch):
    place = folder("mistral")
    change(place / "config.json", model_type="mixtral")
    monkeypatch.setitem(sys.modules, "etllm.transformers.language", None)
    text = failure(place)
    assert text.startswith('//m:llm: m/config.json: "model_type": "mixtral": layers of et_llm')
    assert 'packages = ["@executorch_transformers//:packages"]' in text


def test_windows_that_contradict_are_errors(folder):
    place = folder("qwen3")
    change(place / "config.json", layer_types=["sliding_attention"] * 2)
    assert '"use_sliding_window": got false, expected true' in failure(place)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ("qwen3_0_6b", None),
        ("llama3_2", "expected qwen3_0_6b, qwen3_1_7b, qwen3_4b: the checkpoint"),
    ],
)
def test_model_class_must_be_the_checkpoints(folder, classes, expected):
    place = folder("qwen3", yaml=f"{YAML}base:\n  model_class: {classes}\n")
    if expected is None:
        build(place)
    else:
        assert expected in failure(place)


def test_a_missing_shard_is_named(folder):
    place = folder("qwen2", shards=2)
    (place / "model-00002-of-00002.safetensors").unlink()
    text = failure(place)
    assert "model.safetensors.index.json: 1 of its files are missing: model-00002-of-00002" in text


def test_shards_of_another_revision(folder):
    place = folder("qwen2", shards=2)
    names = sorted(place.glob("*.safetensors"))
    names[0].rename(place / "x")
    names[1].rename(names[0])
    (place / "x").rename(names[1])
    assert "expected in model-00001-of-00002.safetensors, found in model-0000" in failure(place)


def test_quantized_and_damaged_weights(folder):
    place = folder("qwen2")
    weights = load_file(place / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    save_file(weights | {name: weights[name].to(torch.int8)}, place / "model.safetensors")
    assert f'tensor "{name}" is stored as I8, expected one of F32' in failure(place)
    (place / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    assert "expected a complete safetensors file; found 10 bytes" in failure(place)


def test_halves_of_bf16_are_read(folder):
    place = folder("qwen2")
    exact = logits(build(place))
    weights = load_file(place / "model.safetensors")
    save_file({k: v.bfloat16() for k, v in weights.items()}, place / "model.safetensors")
    torch.testing.assert_close(logits(build(place)), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (
            "model.safetensors",
            "checkpoint: got no file of weights, expected a GGUF file; or config",
        ),
        ("config.json", "got 0 files config.json, expected one"),
        ("llm.yaml", "config: got 0 YAML files, expected one."),
    ],
)
def test_missing_files(folder, gone, expected):
    place = folder("qwen2")
    (place / gone).unlink()
    assert expected in failure(place)


def test_files_that_the_yaml_names_must_be_the_targets(folder):
    place = folder("qwen2", yaml=f"{YAML}base:\n  checkpoint: other.pth\n")
    text = failure(place)
    assert text.startswith(
        'm/llm.yaml:8: base.checkpoint: got "other.pth", expected one of the targ'
    )


META = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 96} | {
    "norm_eps": 1e-5,
    "rope_theta": 5e5,
    "use_scaled_rope": True,
    "rope_scale_factor": 8,
    "vocab_size": -1,
}
ENDS = "base:\n  metadata: '{\"get_eos_ids\": [1]}'\n"


def meta_checkpoint(place: Path, **values: Any) -> ModelArgs:
    torch.manual_seed(1)
    args = ModelArgs(**(META | {"vocab_size": 40, "max_context_len": 32}))
    model = construct_transformer(args)
    place.mkdir()
    torch.save(model.state_dict() | {"rope.freqs": torch.zeros(8)}, place / "consolidated.00.pth")
    (place / "params.json").write_text(json.dumps(META | values))
    (place / "llm.yaml").write_text(YAML + ENDS)
    return model.eval()


def test_metas_layout_gives_upstreams_numbers(tmp_path):
    place = tmp_path / "meta"
    reference = meta_checkpoint(place)
    tokens = TOKENS % 40
    with torch.no_grad():
        wanted = reference(tokens)
    torch.testing.assert_close(logits(build(place), tokens), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"n_head": 4}, 'm/params.json: "n_head": got 4, expected a key of upstream\'s ModelArgs.'),
        ({"n_head": 4}, 'Do you mean "n_heads"?'),
        ({"moe": True}, '"moe": got true, expected False; nothing else is supported.'),
        ({"hidden_dim": 100}, "got shape (96, 64), expected (100, 64)"),
        ({"n_layers": "2"}, '"n_layers": got "2", expected a whole number'),
        ({"n_layers": 3}, '"n_layers": got 3, expected the number of layers of the weights'),
        ({"n_layers": 10**9}, '"n_layers": got 1000000000, expected at most 4096'),
        ({"hidden_dim": "96"}, '"hidden_dim": got "96", expected a whole number'),
        ({"rope_theta": "1e4"}, '"rope_theta": got "1e4", expected a number above 0'),
        ({"use_hf_rope": "no"}, '"use_hf_rope": got "no", expected true or false'),
        ({"n_kv_heads": 3}, '"n_kv_heads": got 3, expected a divisor of n_heads (4)'),
    ],
)
def test_params_that_are_not_supported(tmp_path, values, expected):
    meta_checkpoint(tmp_path / "meta", **values)
    assert expected in failure(tmp_path / "meta")


def test_tokens_that_end_an_answer_have_to_be_known(tmp_path):
    place = tmp_path / "meta"
    meta_checkpoint(place)
    (place / "llm.yaml").write_text(YAML)
    text = failure(place)
    assert text.startswith(
        "m/llm.yaml:1: base.metadata: got nothing (upstream's default), expected"
    )
    assert "which tokens end an answer" in text


def test_two_checkpoints_are_one_too_many(folder, tmp_path):
    place = folder("qwen2")
    meta_checkpoint(tmp_path / "meta")
    shutil.copy(tmp_path / "meta" / "consolidated.00.pth", place)
    assert "checkpoint: got model.safetensors, consolidated.00.pth, expected" in failure(place)


def test_an_adapter_computes_what_merged_weights_do(folder):
    """In Hugging Face's layout of queries and keys, which the adapter has, too."""
    place = folder("qwen2")
    tiny_checkpoint.write_adapter("qwen2", place)
    adapted = logits(build(place))
    factors = load_file(place / "adapter_model.safetensors")
    scale = json.loads((place / "adapter_config.json").read_text())["lora_alpha"] / 4
    weights = load_file(place / "model.safetensors")
    for name in [n for n in factors if n.endswith("lora_A.weight")]:
        a, b = factors[name], factors[name.replace("lora_A", "lora_B")]
        layer = name.removeprefix("base_model.model.").replace("lora_A.", "")
        weights[layer] = weights[layer] + scale * b @ a
    for file in place.glob("adapter_*"):
        file.unlink()
    plain = logits(build(place))
    save_file(weights, place / "model.safetensors")
    merged = logits(build(place))
    torch.testing.assert_close(adapted, merged, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(plain, merged, atol=1e-2)


@pytest.mark.parametrize(
    ("targets", "layers"),
    [(["qkv_proj"], ""), (["gate_up_proj", "down_proj"], ""), ("all-linear", "1")],
)
def test_an_adapter_of_fused_layers(folder, targets, layers):
    """Phi's queries, keys and values are one layer, and so are gate and up."""
    place = folder("phi3")
    plain = logits(build(place, **({"layers": layers} if layers else {})))
    weights = load_file(place / "model.safetensors")
    named = {}
    for name, weight in weights.items():
        part = name.split(".")[-2]
        if part.endswith("_proj") and (targets == "all-linear" or part in targets):
            layer = f"base_model.model.{name.removesuffix('.weight')}"
            named[f"{layer}.lora_A.weight"] = torch.randn(4, weight.shape[1]) * 0.2
            named[f"{layer}.lora_B.weight"] = torch.randn(weight.shape[0], 4) * 0.2
    save_file(named, place / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": targets}
    (place / "adapter_config.json").write_text(json.dumps(settings))
    args = {"layers": layers} if layers else {}
    adapted = logits(build(place, **args))
    for name in [n for n in named if n.endswith("lora_A.weight")]:
        layer = name.removeprefix("base_model.model.").replace("lora_A.", "")
        weights[layer] = weights[layer] + 2 * named[name.replace("lora_A", "lora_B")] @ named[name]
    for file in place.glob("adapter_*"):
        file.unlink()
    save_file(weights, place / "model.safetensors")
    merged = logits(build(place, **args))
    torch.testing.assert_close(adapted, merged, atol=1e-3, rtol=1e-3)
    assert not torch.allclose(plain, merged, atol=1e-2)


def test_numbers_without_scales_are_no_weights(tmp_path):
    """In Meta's layout; other tests have that of Hugging Face."""
    place = tmp_path / "meta"
    meta_checkpoint(place)
    path = place / "consolidated.00.pth"
    held = torch.load(path)
    name = "layers.0.attention.wq.weight"
    torch.save(held | {name: held[name].to(torch.int8)}, path)
    assert f'tensor "{name}": got torch.int8, expected one of torch.float32' in failure(place)


def to_gguf(place: Path, kind: str) -> Path:
    """The checkpoint of a folder as a GGUF file, beside its YAML file in a folder of its own."""
    config = json.loads((place / "config.json").read_text())
    made = place.parent / "gguf"
    made.mkdir()
    shutil.copy(place / "llm.yaml", made)
    writer = gguf.GGUFWriter(made / "model.gguf", kind)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_eos_token_id(258)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind.upper()], 2)
    for name, values in load_file(place / "model.safetensors").items():
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(theirs, values.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_gguf_files_of_qwen_give_the_same_numbers(folder, kind):
    """gguf's own table of names says what a converter would call the tensors."""
    place = folder(kind)
    wanted = logits(build(place))
    spec = build(to_gguf(place, kind))
    assert spec.constant_methods["get_eos_ids"] == [258]
    torch.testing.assert_close(logits(spec), wanted, atol=1e-5, rtol=1e-5)


def test_other_gguf_files_are_named(folder):
    place = to_gguf(folder("qwen2"), "qwen2")
    data = (place / "model.gguf").read_bytes()
    (place / "model.gguf").write_bytes(
        data.replace(b"\x05\0\0\0\0\0\0\0qwen2", b"\x05\0\0\0\0\0\0\0gemma")
    )
    text = failure(place)
    assert 'general.architecture: got "gemma", expected one of llama, qwen2, qwen3.' in text
    assert "config.json and .safetensors" in text


@pytest.mark.parametrize(
    ("dtype", "sqnr_db", "quantized"),
    [("fp16", 45, ""), ("bf16", 25, "quantization:\n  embedding_quantize: 8,32\n")],
)
def test_models_in_16_bits_compute_what_those_in_32_do(folder, dtype, sqnr_db, quantized) -> None:
    """Positions of a long context, which 16 bits do not tell apart, are still masked exactly."""
    yaml = YAML.replace("max_context_length: 32", "max_context_length: 512") + quantized
    modules = []
    for name in ("fp32", dtype):
        key = f"kv_cache: true\n  dtype_override: {name}"
        place = folder("gemma3_text", yaml=yaml.replace("kv_cache: true", key))
        change(place / "config.json", max_position_embeddings=512)
        modules.append(build(place).methods["forward"].module)
    with torch.no_grad():
        for start in range(0, 512, 16):
            tokens = (torch.arange(16) * 7 + start).view(1, -1) % 250
            wide, half = (module(tokens, torch.tensor([start])) for module in modules)
    assert str(half.dtype) == {"fp16": "torch.float16", "bf16": "torch.bfloat16"}[dtype]
    noise = (wide - half.float()).square().sum()
    assert 10 * torch.log10(wide.square().sum() / noise) > sqnr_db
    caches = [b for n, b in modules[1].named_buffers() if n.endswith("_cache")]
    assert caches and all(cache.dtype == half.dtype for cache in caches)
