"""et_llm's entry point with a checkpoint of a family that it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from architectures import LENGTH, VOCABULARY, checkpoint, context
from etbuild import BuildError, ModelContext, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm import entry, recipes
from etlower import stages
from etlower.progress import Progress
from executorch.runtime import Runtime

YAML = f"""
model:
  use_kv_cache: true
export:
  max_seq_length: 12
  max_context_length: {LENGTH}
backend:
  xnnpack:
    enabled: true
"""


@pytest.fixture
def mixtral(tmp_path: Path) -> Path:
    checkpoint("mixtral", "MixtralForCausalLM", tmp_path)
    return tmp_path


def target(folder: Path, yaml: str = YAML, **args: str) -> ModelContext:
    """The context of et_llm's model."""
    (folder / "llm.yaml").write_text(yaml.lstrip())
    return context(folder, backends="xnnpack", **args)


def test_the_model_is_that_of_transformers(tmp_path: Path) -> None:
    """With the YAML file's lengths and recipe, and a line for the report."""
    model = checkpoint("mixtral", "MixtralForCausalLM", tmp_path)
    spec = entry.build(target(tmp_path, other_families="true"))
    metadata = spec.constant_methods
    assert (metadata["get_max_context_len"], metadata["get_eos_ids"]) == (LENGTH, [2])
    assert spec.notes == (
        'The family "mixtral" is not one of et_llm\'s own: the model is made by the code of '
        "transformers, as et_transformers does.",
    )
    options = Options({"backend": "xnnpack"}, "//m:r")
    recipe = recipes.build(RecipeContext(options, "//m:r", {"llm.yaml": tmp_path / "llm.yaml"}))
    with fast_path.chosen("fast"):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    program = tmp_path / "net.pte"
    program.write_bytes(manager.buffer)
    method = Runtime.get().load_program(program).load_method("forward")
    tokens = torch.randint(4, VOCABULARY, (1, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(tokens).logits[0]
    for n in range(5):
        (got,) = method.execute([tokens[:, n : n + 1], torch.tensor([n])])
        torch.testing.assert_close(got[0], expected[n], atol=1e-3, rtol=1e-3)


def test_lengths_vary_where_the_file_says_so(mixtral: Path) -> None:
    yaml = YAML.replace("use_kv_cache: true", "use_kv_cache: true\n  enable_dynamic_shape: true")
    spec = entry.build(target(mixtral, yaml, other_families="true"))
    assert spec.constant_methods["get_max_seq_len"] == 12
    assert spec.constant_methods["enable_dynamic_shape"] is True


def test_without_the_attribute_the_message_names_it(mixtral: Path) -> None:
    with pytest.raises(BuildError, match='"mixtral", which is not supported') as caught:
        entry.build(target(mixtral))
    assert "Give et_llm other_families = True" in str(caught.value)


def test_a_family_of_its_own_stays_its_own(tmp_path: Path) -> None:
    checkpoint("llama", "LlamaForCausalLM", tmp_path)
    assert entry.build(target(tmp_path, other_families="true")).notes == ()


@pytest.mark.parametrize(
    ("added", "key", "line"),
    [
        ("quantization:\n  embedding_quantize: 8,32\n", "quantization.embedding_quantize", 10),
        ("multimethod:\n  methods:\n  - method_name: decode\n", "multimethod.methods.0.m", 11),
    ],
)
def test_keys_that_change_nothing_are_errors(
    added: str, key: str, line: int, mixtral: Path
) -> None:
    with pytest.raises(BuildError) as caught:
        entry.build(target(mixtral, YAML + added, other_families="true"))
    assert f"llm.yaml:{line}: {key}" in str(caught.value)
    assert 'expected nothing: the checkpoint is of the family "mixtral"' in str(caught.value)


def test_layers_and_adapters_are_errors(mixtral: Path) -> None:
    with pytest.raises(BuildError, match="//m:net: layers: got 1, expected nothing"):
        entry.build(target(mixtral, other_families="true", layers="1"))
    (mixtral / "adapter_config.json").write_text("{}")
    with pytest.raises(BuildError, match="//m:net: adapters: got m/adapter_config.json"):
        entry.build(target(mixtral, other_families="true"))
