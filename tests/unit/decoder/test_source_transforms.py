"""Upstream's source transforms: what they compute, and what they exclude."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
import torch
from etbuild import BuildError, ModelContext
from etllm import entry
from safetensors.torch import load_file, save_file

YAML = """\
model:
  use_kv_cache: true
  enable_dynamic_shape: false
export:
  max_seq_length: 16
  max_context_length: 32
"""
STATIC = YAML.replace("  enable", "  static_quantize_kv_cache: true\n  enable")
SPIN = YAML + "quantization:\n  use_spin_quant: native\n"
HIDDEN = 128


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_checkpoint.write("qwen3", tmp_path)
    return tmp_path


def build(folder: Path, yaml: str) -> Any:
    (folder / "llm.yaml").write_text(yaml)
    files = {f"m/{path.name}": path for path in folder.iterdir()}
    return entry.build(ModelContext({"backends": "portable"}, files, "//m:llm"))


def answers(folder: Path, yaml: str) -> torch.Tensor:
    """Logits of 12 tokens, read one by one."""
    module = build(folder, yaml).methods["forward"].module
    with torch.no_grad():
        rows = [module(torch.tensor([[7 * i + 3]]), torch.tensor([i])) for i in range(12)]
    return torch.cat(rows)


def widen(folder: Path) -> None:
    """Gives the layers a width for which there is a Hadamard transform."""
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"intermediate_size": HIDDEN}))
    weights = load_file(folder / "model.safetensors")
    random = torch.Generator().manual_seed(5)
    for name, value in weights.items():
        if ".mlp." in name:
            shape = [HIDDEN if size == tiny_checkpoint.HIDDEN else size for size in value.shape]
            weights[name] = torch.randn(shape, generator=random) * 0.3
    save_file(weights, folder / "model.safetensors")


def test_a_static_cache_of_8_bits_is_near_the_floats(folder: Path) -> None:
    expected = answers(folder, YAML)
    scale = "  static_quantize_kv_cache_scale: 0.04\n"
    got = answers(folder, STATIC.replace("export:", scale + "export:"))
    noise = (got - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / noise) > 25
    caches = [
        buffer
        for name, buffer in build(folder, STATIC).methods["forward"].module.named_buffers()
        if name.endswith((".k_cache", ".v_cache"))
    ]
    assert caches and all(cache.dtype == torch.int8 for cache in caches)


def test_a_rotated_checkpoint_computes_what_it_did_before(folder: Path) -> None:
    widen(folder)
    expected = answers(folder, YAML)
    weights = load_file(folder / "model.safetensors")
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401

    rotation = torch.ops.llama.fast_hadamard_transform(torch.eye(HIDDEN))
    for name in weights:
        if name.endswith("down_proj.weight"):
            weights[name] = (weights[name] @ rotation).contiguous()
    save_file(weights, folder / "model.safetensors")
    assert not torch.allclose(answers(folder, YAML), expected, atol=1e-2)
    torch.testing.assert_close(answers(folder, SPIN), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        (SPIN, 'got "native", expected no such key for a model whose layers are 96 wide inside'),
        (SPIN.replace("native", "cuda"), 'got "cuda", which is not supported: it needs operators'),
        (
            YAML.replace("export:", "  static_quantize_kv_cache_scale: 0.1\nexport:"),
            "static_quantize_kv_cache_scale: got 0.1, expected no such key without model.static_qu",
        ),
        (
            STATIC.replace("enable_dynamic_shape: false", "enable_dynamic_shape: true"),
            "static_quantize_kv_cache requires static export shapes",
        ),
    ],
)
def test_what_transforms_exclude(folder: Path, yaml: str, expected: str) -> None:
    with pytest.raises(BuildError) as caught:
        build(folder, yaml)
    assert expected in str(caught.value)
