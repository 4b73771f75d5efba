"""Decoders of all architectures, token by token, against transformers' forward of all tokens.

Weights are random and large, so that most errors show; windows are shorter than the conversation,
which fills the cache to its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matrix
import pytest
import torch
import transformers
from etbuild import BuildError, ModelContext, ModelSpec
from etllm import entry as llm_entry
from etllm.transformers import decoding, entry
from etllm.transformers.pretrained import first_line
from own_sizes import OWN_ARGUMENTS
from tiny_config import tiny_config

LENGTH = 48
_CLASSES = {
    each.architecture: each.class_name
    for each in matrix.combinations()
    if each.task == "text-generation" and each.recipe == "fp32"
}
# What transformers' own steps give differs from its forward of all tokens.
_INCONSISTENT = ("bamba", "nemotron_h", "zamba2")
_WINDOW = {"sliding_window": 6}
_ROPE = {"rope_theta": 10000.0, "original_max_position_embeddings": 16, "factor": 4.0}
_FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}
_ROPES = {
    "default": {"rope_theta": 10000.0},
    "linear": {"rope_theta": 10000.0, "factor": 4.0},
    "dynamic": {"rope_theta": 10000.0, "factor": 4.0},
    "yarn": _ROPE,
    "llama3": _ROPE | {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": _ROPE | _FACTORS | {"original_max_position_embeddings": LENGTH},
}
_VARIANTS: list[tuple[str, dict[str, Any]]] = [
    (
        "gpt_neo",
        {
            "attention_types": [[["global", "local"], 1]],
            "attention_layers": ["global", "local"],
            "window_size": 6,
        },
    ),
    *(
        (name, _WINDOW)
        for name in ("cohere2", "gemma3_text", "gpt_oss", "mistral", "mixtral", "olmo3", "phi3")
    ),
    ("llama4_text", {"attention_chunk_size": 8}),
    *(
        (name, {"rope_parameters": {"rope_type": kind, **values}, "max_position_embeddings": 64})
        for name in ("llama", "qwen3")
        for kind, values in _ROPES.items()
    ),
]
_YAML = f"""
model:
  use_kv_cache: true
export:
  max_seq_length: 24
  max_context_length: {LENGTH}
"""
# Exported, too, which takes seconds each.
_EXPORTED = [
    each
    for each in _VARIANTS
    if each[0] in ("gpt_neo", "gemma3_text")
    or (each[0], each[1].get("rope_parameters", {}).get("rope_type"))
    in (("llama", "dynamic"), ("llama", "longrope"))
]


def written(architecture: str, folder: Path, **values: Any) -> Any:
    """A model of transformers, whose checkpoint is in the folder."""
    config = tiny_config(architecture)
    for name, value in values.items():
        setattr(config, name, value)
    if hasattr(config, "is_decoder"):
        config.is_decoder = True
    config.architectures = [_CLASSES[architecture]]
    torch.manual_seed(0)
    config.save_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = getattr(transformers, _CLASSES[architecture])(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    return model


def made(architecture: str, folder: Path, **values: Any) -> tuple[Any, ModelSpec]:
    """A model of transformers, and the spec that et_transformers makes of its checkpoint."""
    model = written(architecture, folder, **values)
    args = OWN_ARGUMENTS.get(architecture, {}) | {"task": "text-generation"}
    args |= {"max_length": str(LENGTH), "prefill_length": "24"}
    files = {path.name: path for path in folder.iterdir()}
    return model, entry.build(ModelContext(args, files, f"//m:{architecture}"))


def difference(model: Any, spec: ModelSpec, step: Any) -> float:
    """The largest difference of logits, as a share of their spread: prompts, and single tokens."""
    most = min(spec.constant_methods["get_vocab_size"], 100)
    tokens = torch.randint(5, most, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    ends = [20, *range(21, 31), 44, *range(45, LENGTH + 1)]
    if not spec.constant_methods["enable_dynamic_shape"]:
        ends = list(range(1, LENGTH + 1))
    worst = 0.0
    with torch.no_grad():
        expected = model(input_ids=tokens, use_cache=False).logits[0]
        for start, end in zip([0, *ends], ends, strict=False):
            got = step(tokens[:, start:end], torch.tensor([start]))[0]
            worst = max(worst, float((got - expected[end - 1]).abs().max() / expected.std()))
    return worst


def exported(spec: ModelSpec) -> Any:
    method = spec.methods["forward"]
    program = torch.export.export(
        method.module, method.example_inputs, dynamic_shapes=method.dynamic_shapes, strict=False
    )
    return program.module()


@pytest.mark.parametrize(("architecture", "values"), _VARIANTS)
@pytest.mark.few(7)
def test_windows_and_positions(architecture: str, values: dict[str, Any], tmp_path: Path) -> None:
    model, spec = made(architecture, tmp_path, **values)
    assert difference(model, spec, spec.methods["forward"].module.continued) < 1e-4


@pytest.mark.parametrize(("architecture", "values"), _EXPORTED)
@pytest.mark.few(2)
def test_exported_windows_and_positions(
    architecture: str, values: dict[str, Any], tmp_path: Path
) -> None:
    model, spec = made(architecture, tmp_path, **values)
    assert difference(model, spec, exported(spec)) < 1e-4


@pytest.mark.release
@pytest.mark.parametrize("architecture", sorted(set(_CLASSES) - set(_INCONSISTENT)))
def test_all_architectures(architecture: str, tmp_path: Path) -> None:
    """Programs that are built give transformers' numbers; another test has those that are not."""
    try:
        model, spec = made(architecture, tmp_path)
    except Exception as error:
        assert "KV cache gives logits" not in str(error)
        pytest.skip(first_line(error))
    assert difference(model, spec, spec.methods["forward"].module.continued) < 1e-4


@pytest.mark.release
@pytest.mark.parametrize("architecture", sorted(_CLASSES))
def test_all_architectures_by_et_llm(architecture: str, tmp_path: Path) -> None:
    """config.json alone decides: the numbers are transformers', or an error says why not."""
    try:
        model = written(architecture, tmp_path, eos_token_id=2)
    except Exception as error:
        pytest.skip(f"transformers itself: {first_line(error)}")
    (tmp_path / "llm.yaml").write_text(_YAML)
    files = {f"m/{path.name}": path for path in tmp_path.iterdir()}
    try:
        spec = llm_entry.build(ModelContext({"backends": "portable"}, files, "//m:llm"))
    except BuildError as error:
        pytest.skip(first_line(error))
    module = spec.methods["forward"].module
    assert difference(model, spec, getattr(module, "continued", module)) < 1e-3


def test_the_eager_model_reads_all_tokens_again(tmp_path: Path) -> None:
    """Programs are compared with it: a cache that is wrong fails their tests."""
    model, spec = made("llama", tmp_path)
    module = spec.methods["forward"].module
    module.buffers_of_cache.layers.clear()
    assert difference(model, spec, module) < 1e-6


@pytest.mark.parametrize("architecture", ["bamba"])
def test_a_cache_that_gives_other_logits_is_refused(architecture: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"a KV cache gives logits that differ from those of tran"):
        made(architecture, tmp_path)


def test_a_wrong_window_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without what mends it, GPT-Neo's window counts from the cache's end."""
    import contextlib

    monkeypatch.setattr(decoding, "_rows_of_masks", lambda *_: contextlib.nullcontext())
    with pytest.raises(
        BuildError, match=r"GPTNeoForCausalLM by \S+ of their spread, expected at m"
    ):
        made("gpt_neo", tmp_path, **_VARIANTS[0][1])


@pytest.mark.parametrize(
    ("architecture", "values", "message"),
    [
        (
            "llama",
            {
                "rope_parameters": {"rope_type": "longrope", **_ROPE, **_FACTORS},
                "max_position_embeddings": 64,
            },
            r'max_length: got 48, expected at most 16: from there on "longrope" computes the posit',
        ),
        ("falcon", {"alibi": True}, "alibi: got true, expected false: transformers' two implem"),
    ],
)
def test_positions_that_are_refused(
    architecture: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BuildError, match=message):
        made(architecture, tmp_path, **values)
