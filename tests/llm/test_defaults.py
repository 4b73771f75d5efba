"""Keys that a config.json leaves out, or has twice, mean what transformers takes them for."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pprint
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
import torch

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

from etbuild import BuildError  # noqa: E402
from etllm.family_defaults import DEFAULTS  # noqa: E402
from etllm.replacements import FAMILIES  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from test_families import built, reference, tokens_of  # noqa: E402
from transformers import CONFIG_MAPPING, PreTrainedConfig  # noqa: E402

# What changes no logits of a model that isn't trained.
_NO_EFFECT = ("initializer_range", "pad_token_id", "pretraining_tp", "use_cache")
_COMMON = ("bos_token_id", "eos_token_id", "tie_word_embeddings")


def defaults_of(kind: str) -> dict[str, Any]:
    """Defaults of a family's configuration, as its class has them."""
    config = CONFIG_MAPPING[kind]
    base = {field.name for field in dataclasses.fields(PreTrainedConfig)} - set(_COMMON)
    names = {field.name for field in dataclasses.fields(config)} - base - set(_NO_EFFECT)
    names = {name for name in names if not name.endswith(("_dropout", "_pdrop", "_scaling_"))}
    theta = config.default_theta
    found = {name: getattr(config, name) for name in names if name != "rope_parameters"}
    if isinstance(theta, dict):
        found |= {"rope_theta": theta["global"], "rope_local_base_freq": theta["local"]}
    else:
        found["rope_theta"] = theta
    return found


def test_defaults_are_those_of_transformers() -> None:
    expected = {kind: defaults_of(kind) for kind in sorted(FAMILIES)}
    assert expected == DEFAULTS, f"DEFAULTS = {pprint.pformat(expected)}"


# Values of sizes that a tiny model cannot have, and keys that the class knows under another name.
_SIZES = {
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
}


def _difference(folder: Path, context: int = 64, count: int = 40) -> float:
    """The largest difference from transformers' logits, as a share of their spread."""
    module = built(folder, context)
    tokens = tokens_of(count)
    with torch.no_grad():
        expected = reference(folder)(tokens, use_cache=False).logits[0]
        got = [module(tokens[:, i : i + 1], torch.tensor([i]))[0] for i in range(count)]
    return float((torch.stack(got) - expected).abs().max() / expected.std())


def _rewrite(folder: Path, drop: tuple[str, ...] = (), **values: Any) -> None:
    path = folder / "config.json"
    kept = {k: v for k, v in json.loads(path.read_text()).items() if k not in drop}
    path.write_text(json.dumps(kept | values))


def _optional(family: str) -> list[str]:
    """Keys that change a model, and that a config.json may leave out."""
    return sorted(set(tiny_checkpoint.config(family, 259)) & set(DEFAULTS[family]) - _SIZES)


_OMITTED = [(family, key) for family in sorted(FAMILIES) for key in _optional(family)]


@pytest.mark.parametrize(("family", "key"), _OMITTED)
@pytest.mark.few(8)
def test_a_key_may_be_left_out(family: str, key: str, tmp_path: Path) -> None:
    tiny_checkpoint.write(family, tmp_path)
    if key == "tie_word_embeddings":
        weights = load_file(tmp_path / "model.safetensors")
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"] * 0.5
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    _rewrite(tmp_path, (key,))
    assert _difference(tmp_path, count=12) < 1e-4


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_all_keys_may_be_left_out(family: str, tmp_path: Path) -> None:
    """But for sizes, whose defaults are those of a large model, and what the file is about."""
    tiny_checkpoint.write(family, tmp_path)
    needed = {*_SIZES, "model_type", "architectures", "sliding_window", "max_position_embeddings"}
    needed.add("pad_token_id")
    dropped = set(tiny_checkpoint.config(family, 259)) - needed
    if family == "phi3":
        # The shapes of its frequencies are part of the file.
        dropped -= {"partial_rotary_factor", "rope_scaling"}
    tied = DEFAULTS[family]["tie_word_embeddings"]
    weights = load_file(tmp_path / "model.safetensors")
    if not tied:
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"] * 0.5)
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    _rewrite(tmp_path, tuple(dropped))
    assert _difference(tmp_path) < 1e-4


_LINEAR = {"rope_type": "linear", "factor": 4.0}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
_PLACES = [
    {},
    {"rope_theta": 300.0},
    {"rope_theta": 300.0, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}},
    {"rope_theta": 300.0, "rope_parameters": {"rope_type": "default"}},
    {"rope_parameters": _LINEAR},
    {"rope_theta": 300.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_scaling": _LINEAR, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
    {"rope_parameters": _LLAMA3 | {"original_max_position_embeddings": 16}},
    {"rope_parameters": _LLAMA3, "max_position_embeddings": 512},
]


@pytest.mark.parametrize(
    ("family", "place"),
    [
        (family, place)
        for family, place in itertools.product(sorted(FAMILIES), range(len(_PLACES)))
        # Its class takes two kinds of rotary embeddings only.
        if family != "phi3"
        # It looks for a value of each kind of layer beside rope_scaling.
        and not (
            family == "gemma3_text" and {"rope_scaling", "rope_parameters"} <= set(_PLACES[place])
        )
    ],
)
@pytest.mark.few(8)
def test_rotary_embeddings_are_read_where_transformers_reads_them(
    family: str, place: int, tmp_path: Path
) -> None:
    tiny_checkpoint.write(family, tmp_path)
    _rewrite(tmp_path, ("rope_theta", "rope_scaling", "rope_local_base_freq"), **_PLACES[place])
    assert _difference(tmp_path) < 1e-4


_OF_LAYERS = [
    {},
    {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 700.0}},
    {"sliding_attention": {"rope_type": "default", "rope_theta": 50.0}},
    {
        "full_attention": {"rope_type": "default"},
        "sliding_attention": {"rope_type": "linear", "factor": 2.0},
    },
]


@pytest.mark.few(3)
@pytest.mark.parametrize("place", range(len(_OF_LAYERS)))
@pytest.mark.parametrize("beside", [{}, {"rope_theta": 90.0, "rope_local_base_freq": 30.0}])
def test_rotary_embeddings_of_gemma3s_layers(
    place: int, beside: dict[str, Any], tmp_path: Path
) -> None:
    tiny_checkpoint.write("gemma3_text", tmp_path)
    dropped = ("rope_theta", "rope_scaling", "rope_local_base_freq")
    _rewrite(tmp_path, dropped, rope_parameters=_OF_LAYERS[place], **beside)
    assert _difference(tmp_path) < 1e-4


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("granite", {"rope_parameters": {"rope_type": "default"}, "query_pre_attn_scalar": 3}),
        ("llama", {"layer_types": ["sliding_attention"] * 2, "sliding_window": 4}),
        ("llama", {"final_logit_softcapping": 1.0, "embedding_multiplier": 3.0}),
        ("gemma", {"hidden_activation": "silu"}),
        ("gemma2", {"hidden_act": "silu"}),
        ("mistral", {"sliding_window": None}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
        ("qwen3", {"use_sliding_window": False, "sliding_window": 6, "max_window_layers": 0}),
        ("smollm3", {"no_rope_layers": None, "no_rope_layer_interval": 2}),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 6, "no_rope_layers": [1, 0]}),
        ("gemma3_text", {"sliding_window_pattern": 1}),
        ("gemma3_text", {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 3.0}),
    ],
)
def test_keys_mean_what_the_class_makes_of_them(
    family: str, values: dict[str, Any], tmp_path: Path
) -> None:
    """Also those of other families, which a class does not know."""
    tiny_checkpoint.write(family, tmp_path)
    _rewrite(tmp_path, **values)
    assert _difference(tmp_path) < 1e-4


@pytest.mark.few(4)
@pytest.mark.parametrize("family", ["gemma2", "llama", "qwen3"])
@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("differs", [True, False])
def test_an_output_matrix_of_its_own(family: str, tie: bool, differs: bool, tmp_path: Path) -> None:
    """transformers does not tie two matrices that the file has and that differ."""
    tiny_checkpoint.write(family, tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    embedding = weights["model.embed_tokens.weight"]
    weights["lm_head.weight"] = embedding.flip(0) if differs else embedding.clone()
    save_file(weights, path, {"format": "pt"})
    _rewrite(tmp_path, tie_word_embeddings=tie)
    assert _difference(tmp_path, count=8) < 1e-4


def test_an_output_matrix_that_is_not_there(tmp_path: Path) -> None:
    """transformers would draw one at random."""
    tiny_checkpoint.write("qwen3", tmp_path)
    _rewrite(tmp_path, tie_word_embeddings=False)
    with pytest.raises(BuildError, match='"tie_word_embeddings": got false, expected true'):
        built(tmp_path, 64)


def test_contexts_beyond_the_original_one_are_refused(tmp_path: Path) -> None:
    """There transformers turns all tokens by other factors than those in the cache."""
    tiny_checkpoint.write("phi3", tmp_path)
    message = r'"original_max_position_embeddings": got 64, expected at least export\.max_context'
    with pytest.raises(BuildError, match=message):
        built(tmp_path, 96)
