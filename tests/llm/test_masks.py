"""Hidden tokens have no weight, however large the scores of attention are."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_checkpoint
import torch
from etbuild import ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm import entry, layers
from etlower import stages
from etlower.progress import Progress
from executorch.runtime import Runtime
from safetensors.torch import load_file, save_file
from test_families import reference, tokens_of
from xnnpack_recipes import fp32

COUNT = 24
YAML = """
model:
  use_kv_cache: true
  enable_dynamic_shape: true
  dtype_override: {dtype}
export:
  max_seq_length: 16
  max_context_length: 64
"""


def large_scores(family: str, folder: Path, factor: float = 2000.0) -> None:
    """Writes a checkpoint whose tokens see themselves least: queries are keys times -factor."""
    tiny_checkpoint.write(family, folder)
    weights = load_file(folder / "model.safetensors")
    queries, keys = (n * tiny_checkpoint.HEAD for n in (4, 2))

    def turned(key: torch.Tensor) -> torch.Tensor:
        per_head = key.view(2, 1, tiny_checkpoint.HEAD, -1).expand(-1, 2, -1, -1)
        return -per_head.reshape(queries, -1)

    for name, weight in weights.items():
        if name.endswith("qkv_proj.weight"):
            weight[:queries] = factor * turned(weight[queries : queries + keys])
        elif name.endswith("q_proj.weight"):
            weight.copy_(factor * turned(weights[name.replace("q_proj", "k_proj")]))
        elif name.endswith("q_proj.bias"):
            weight.zero_()
        elif name.endswith("q_norm.weight"):
            # The norm undoes the factor.
            weight.fill_(10.0 * factor)
            weights[name.replace("q_norm", "k_norm")].fill_(1.0)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def spec_of(folder: Path, dtype: str = "fp32") -> ModelSpec:
    (folder / "llm.yaml").write_text(YAML.format(dtype=dtype))
    files = {f"m/{path.name}": path for path in folder.iterdir()}
    return entry.build(ModelContext({"backends": "portable"}, files, "//m:llm"))


@pytest.mark.few(4)
@pytest.mark.parametrize("family", sorted(tiny_checkpoint.FAMILIES))
def test_logits_equal_those_of_transformers(family: str, tmp_path: Path) -> None:
    large_scores(family, tmp_path)
    tokens = tokens_of(COUNT)
    module = spec_of(tmp_path).methods["forward"].module
    with torch.no_grad():
        expected = reference(tmp_path)(tokens, use_cache=False).logits[0]
        got = [module(tokens[:, i : i + 1], torch.tensor([i]))[0] for i in range(COUNT)]
    error = (torch.stack(got) - expected).abs().max() / expected.std()
    assert error < 1e-3, "of scores so large, float32 keeps two digits behind the point"


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("family", ["gemma3_text", "mistral"])
@pytest.mark.parametrize("factor", [1.0, 600.0])
def test_what_is_hidden_changes_nothing(
    family: str, dtype: str, factor: float, tmp_path: Path
) -> None:
    """Tokens of a conversation before are in the cache, at positions that are not read yet."""
    large_scores(family, tmp_path, factor)
    tokens = tokens_of(COUNT)
    fresh, used = (spec_of(tmp_path, dtype).methods["forward"].module for _ in range(2))
    with torch.no_grad():
        for start in range(0, 64, 16):
            used((tokens_of(16) + start) % 255, torch.tensor([start]))
        for i in range(COUNT):
            call = tokens[:, i : i + 1], torch.tensor([i])
            assert torch.equal(used(*call), fresh(*call))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("family", "dtype", "factor"),
    [("llama", "fp32", 2000.0), ("mistral", "fp16", 600.0)],
)
def test_programs_of_xnnpack_hide_tokens(
    family: str, dtype: str, factor: float, tmp_path: Path
) -> None:
    large_scores(family, tmp_path, factor)
    spec = spec_of(tmp_path, dtype)
    with fast_path.chosen("fast"):
        recipe = fp32(RecipeContext(Options({})))
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    (tmp_path / "net.pte").write_bytes(manager.buffer)
    program = Runtime.get().load_program(tmp_path / "net.pte")
    fresh, used = (program.load_method("forward") for _ in range(2))
    for start in range(0, 64, 16):
        used.execute([(tokens_of(16) + start) % 255, torch.tensor([start])])
    tokens = tokens_of(COUNT)
    got = []
    for start, end in [(0, 1), (1, 9), *((i, i + 1) for i in range(9, COUNT))]:
        call = [tokens[:, start:end], torch.tensor([start])]
        (one,), (other,) = fresh.execute(call), used.execute(call)
        assert torch.equal(one, other)
        got.append((end - 1, one[0].float()))
    if dtype == "fp32":
        with torch.no_grad():
            expected = reference(tmp_path)(tokens, use_cache=False).logits[0]
        for position, logits in got:
            torch.testing.assert_close(logits, expected[position], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("factor", "family", "limits"),
    [(1.0, "llama", False), (2000.0, "llama", True), (2000.0, "gemma2", False)],
)
def test_weights_decide_how_tokens_are_hidden(
    factor: float, family: str, limits: bool, tmp_path: Path
) -> None:
    """Gemma 2 caps its scores."""
    large_scores(family, tmp_path, factor)
    transformer = spec_of(tmp_path).methods["forward"].module.transformer
    assert {layer.attention.limits for layer in transformer.layers} == {limits}


def test_no_score_is_larger_than_the_weights_say(tmp_path: Path) -> None:
    for family in ("gemma3_text", "llama", "qwen2"):
        large_scores(family, tmp_path / family, 3.0)
        transformer = spec_of(tmp_path / family).methods["forward"].module.transformer
        scores: list[float] = []

        def product(a: torch.Tensor, b: torch.Tensor, kept: list[float] = scores) -> torch.Tensor:
            result = torch.matmul(a, b)
            if b.shape[-1] == 64:
                kept.append(float(result.abs().max()))
            return result

        module = spec_of(tmp_path / family).methods["forward"].module
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "bmm", product)
            module(tokens_of(16), torch.tensor([0]))
        largest = max(scores)
        attention = transformer.layers[0].attention
        norm = transformer.layers[0].attention_norm.weight
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layers, "_SMALL_SCORES", largest * 0.99)
            assert not all(
                layer.attention.scores_are_small(layer.attention_norm.weight)
                for layer in transformer.layers
            )
            # Nor is the bound far from what occurs.
            patch.setattr(layers, "_SMALL_SCORES", largest * 100)
            assert attention.scores_are_small(norm)


def test_an_adapter_of_queries_makes_scores_unknown(tmp_path: Path) -> None:
    tiny_checkpoint.write("llama", tmp_path)
    tiny_checkpoint.write_adapter("llama", tmp_path)
    transformer = spec_of(tmp_path).methods["forward"].module.transformer
    assert transformer.layers[0].attention.limits
