"""et_llm's entry point with checkpoints that need what its layers lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from architectures import LENGTH, VOCABULARY, context
from etbuild import BuildError, ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm import entry, recipes
from etlower import stages
from etlower.progress import Progress
from runner import runtime

YAML = f"""
model:
  use_kv_cache: true
  enable_dynamic_shape: true
export:
  max_seq_length: 12
  max_context_length: {LENGTH}
backend:
  xnnpack:
    enabled: true
"""
# Mixtures of experts and states, whose default is a token a call.
ONE = YAML.replace("  enable_dynamic_shape: true\n", "")
METHODS = """
multimethod:
  share_mutable_buffers: true
  methods:
    - method_name: prefill
    - method_name: decode
"""
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LENGTH,
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ROPE = {"rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
_FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": _ROPE | {"rope_type": kind} | more}


# Architecture, what its configuration says beside the sizes, and whether layers of et_llm replace
# its own.
CASES: list[tuple[str, dict[str, Any], bool]] = [
    # Rotary embeddings.
    ("llama", _rope("yarn"), False),
    ("llama", _rope("yarn") | {"num_key_value_heads": 1, "tie_word_embeddings": True}, False),
    (
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}},
        False,
    ),
    ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}, True),
    ("llama", _rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0), True),
    ("qwen2", _rope("yarn"), False),
    ("qwen3", _rope("yarn", factor=3.0) | {"head_dim": 8}, False),
    (
        "phi3",
        _rope("longrope", original_max_position_embeddings=LENGTH, **_FACTORS)
        | {"pad_token_id": 0},
        True,
    ),
    ("glm4", {"head_dim": 8, "partial_rotary_factor": 0.5, "pad_token_id": 0}, False),
    # Linear layers and activations.
    ("llama", {"attention_bias": True, "mlp_bias": True}, False),
    ("llama", {"hidden_act": "relu", "num_key_value_heads": 1}, False),
    ("olmo2", {}, False),
    ("stablelm", {}, False),
    # Windows that are shorter than the conversation.
    ("mistral", {"sliding_window": 6}, True),
    ("mistral", {"sliding_window": 6, "hidden_act": "gelu_new"}, False),
    (
        "cohere2",
        {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
        False,
    ),
    (
        "exaone4",
        {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
        False,
    ),
    # Positions of other kinds, tied heads.
    ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LENGTH}, False),
    ("bloom", {"n_layer": 2, "n_head": 4}, False),
    # Mixtures of experts.
    ("mixtral", {"num_local_experts": 4, "sliding_window": 6}, False),
    ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}, False),
    ("granitemoe", {"num_local_experts": 4, "num_experts_per_tok": 2}, False),
]


def written(architecture: str, folder: Path, **values: Any) -> Any:
    """A model with random weights, whose checkpoint is in the folder."""
    torch.manual_seed(0)
    known = hf.CONFIG_MAPPING[architecture]
    config = known(**{**_SIZES, **values})
    config._attn_implementation = "eager"
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    # Those that transformers draws are so small that most errors would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model


def target(folder: Path, yaml: str = YAML, **args: str) -> ModelContext:
    """The context of et_llm's model."""
    (folder / "llm.yaml").write_text(yaml.lstrip())
    return context(folder, backends="xnnpack", **args)


def is_by_modeling_code(spec: ModelSpec) -> bool:
    return any("has the layers of transformers" in note for note in spec.notes)


def steps(prompt: int, most: int = 12) -> list[tuple[int, int]]:
    """A prompt in calls, single tokens, a second turn, and single tokens up to the end."""
    ends = [*range(most, prompt, most), prompt, prompt + 1, prompt + 2, prompt + 9]
    ends += range(LENGTH - 3, LENGTH + 1)
    starts, calls = 0, []
    for end in ends:
        while starts < end:
            calls.append((starts, min(end, starts + most)))
            starts = calls[-1][1]
    return calls


def compare(model: Any, step: Any, calls: list[tuple[int, int]], share: float = 1e-3) -> None:
    """Compares logits by token with transformers' own, which read all tokens without a cache."""
    tokens = torch.randint(3, VOCABULARY, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits[0]
        for start, end in calls:
            got = step(tokens[:, start:end], torch.tensor([start]))[0]
            worst = float((got - expected[end - 1]).abs().max() / expected[end - 1].std())
            assert worst < share, f"tokens {start} to {end}: {worst:.2g} of the spread"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("architecture", "values", "own"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_token_by_token(
    architecture: str, values: dict[str, Any], own: bool, tmp_path: Path
) -> None:
    """config.json alone decides whose code makes a model; both give transformers' logits."""
    model = written(architecture, tmp_path, **values)
    spec = entry.build(target(tmp_path))
    assert is_by_modeling_code(spec) is not own
    metadata = spec.constant_methods
    assert (metadata["get_max_context_len"], metadata["get_max_seq_len"]) == (LENGTH, 12)
    assert (metadata["get_eos_ids"], metadata["get_n_layers"]) == ([2], 2)
    module = spec.methods["forward"].module
    # The eager module of transformers' code reads all tokens again: the cache is what is tested.
    step = getattr(module, "continued", module)
    for prompt in (1, 5, 20):
        compare(model, step, steps(prompt))


@pytest.mark.release
@pytest.mark.parametrize(
    ("yaml", "experts"),
    [(YAML + METHODS, False), (ONE, True)],
    ids=["methods", "one token"],
)
def test_programs(yaml: str, experts: bool, tmp_path: Path) -> None:
    """In ExecuTorch's runtime, with the YAML file's methods, lengths and recipe."""
    kind = ("mixtral", {"num_local_experts": 4}) if experts else CASES[1][:2]
    model = written(kind[0], tmp_path, **kind[1])
    spec = entry.build(target(tmp_path, yaml))
    assert spec.constant_methods["enable_dynamic_shape"] is not experts
    options = Options({"backend": "xnnpack"}, "//m:r")
    recipe = recipes.build(RecipeContext(options, "//m:r", {"llm.yaml": tmp_path / "llm.yaml"}))
    with fast_path.chosen("fast"):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    path = tmp_path / "net.pte"
    path.write_bytes(manager.buffer)
    with runtime.Program(path) as program:

        def step(tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            name = {True: "decode", False: "prefill"}[tokens.shape[1] == 1]
            name = name if name in spec.methods else "forward"
            (logits,) = program.run(name, [tokens.numpy(), position.numpy()])
            return torch.from_numpy(logits)

        compare(model, step, steps(5, 1 if experts else 12))


@pytest.mark.release
def test_states_read_one_token(tmp_path: Path) -> None:
    model = written("mamba", tmp_path, state_size=4)
    spec = entry.build(target(tmp_path, ONE))
    assert spec.constant_methods["use_recurrent_state"] is True
    assert spec.constant_methods["get_max_seq_len"] == 1
    compare(model, spec.methods["forward"].module.continued, steps(5, 1))
    for yaml, key in ((YAML, "model.enable_dynamic_shape"), (ONE + METHODS, "multimethod.methods")):
        with pytest.raises(BuildError, match=f"{key}: got .*layers of mamba keep a state"):
            entry.build(target(tmp_path, yaml))


def test_what_the_file_says_of_the_program_holds(tmp_path: Path) -> None:
    """Layers, types, bits of the embedding, and logits of all tokens."""
    model = written(*CASES[5][:1], tmp_path, **CASES[5][1])
    cut = entry.build(target(tmp_path, layers="1"))
    assert cut.constant_methods["get_n_layers"] == 1
    del model.model.layers[1:]
    compare(model, cut.methods["forward"].module.continued, steps(5))
    yaml = YAML.replace("model:", "model:\n  dtype_override: fp16")
    half = entry.build(target(tmp_path, yaml, layers="1")).methods["forward"].module
    assert {buffer.dtype for _, buffer in half.buffers_of_cache.named_buffers()} == {torch.half}
    compare(model, half.continued, steps(5), share=0.03)
    yaml = YAML + "quantization:\n  embedding_quantize: 8,32\n"
    small = entry.build(target(tmp_path, yaml, layers="1")).methods["forward"].module
    assert small.model.get_input_embeddings().rows.dtype == torch.int8
    compare(model, small.continued, steps(5), share=0.1)
    yaml = YAML + "debug:\n  generate_full_logits: true\n"
    full = entry.build(target(tmp_path, yaml, layers="1")).methods["forward"].module
    tokens = torch.arange(3, 9).view(1, -1)
    with torch.no_grad():
        got, expected = full.continued(tokens, torch.tensor([0])), model(tokens).logits
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("added", "key", "line"),
    [
        ("base:\n  model_class: llama3_2\n", "base.model_class", 11),
        ("quantization:\n  use_spin_quant: native\n", "quantization.use_spin_quant", 11),
    ],
)
def test_keys_of_own_layers_are_errors(added: str, key: str, line: int, tmp_path: Path) -> None:
    written("mixtral", tmp_path)
    with pytest.raises(BuildError) as caught:
        entry.build(target(tmp_path, YAML + added))
    assert f"llm.yaml:{line}: {key}: got" in str(caught.value)
    assert 'those of transformers (m/config.json: "model_type": "mixtral")' in str(caught.value)


@pytest.mark.parametrize(
    ("architecture", "values", "message"),
    [
        ("xlstm", {"num_heads": 4}, "xlstm: the code of transformers' xLSTMForCausalLM does not r"),
        (
            "openai-gpt",
            {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LENGTH},
            "openai-gpt: layer 0 keeps nothing, expected keys and values in transformers' cache",
        ),
    ],
)
def test_models_with_caches_of_their_own_are_errors(
    architecture: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    written(architecture, tmp_path, **values)
    with pytest.raises(BuildError, match=message):
        entry.build(target(tmp_path, ONE))


def test_wrong_targets_and_models_are_errors(tmp_path: Path) -> None:
    written("mixtral", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())

    def message(yaml: str = ONE, args: dict[str, str] | None = None, **values: Any) -> str:
        (tmp_path / "config.json").write_text(json.dumps({**config, **values}))
        with pytest.raises(BuildError) as caught:
            entry.build(target(tmp_path, yaml, **(args or {})))
        return str(caught.value)

    assert "//m:net: layers: got 9, expected at most 2" in message(args={"layers": "9"})
    long = ONE.replace(str(LENGTH), "4096")
    assert f"export.max_context_length: got 4096, expected at most {LENGTH}" in message(long)
    unknown = message(model_type="nobodys")
    assert 'model_type: got "nobodys", expected one of the' in unknown
    assert "no class for in the architecture" in message(model_type="vit")
    assert "Python code in the checkpoint" in message(auto_map={"AutoModel": "own.Own"})
    assert 'quantized with "gptq"' in message(quantization_config={"quant_method": "gptq"})
    assert "got shape (99, 32), expected (99, 64)" in message(hidden_size=64)
    more = message(num_hidden_layers=1)
    assert "checkpoint: got model.layers.1." in more
    assert "expected only the layers that config.json says" in more
    assert "got no weights for" in message(num_hidden_layers=3)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "//m:net: adapters: got m/adapter_config.json, expected nothing" in message()
