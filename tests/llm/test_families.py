"""Each family computes what Hugging Face's transformers do with the same checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tiny_checkpoint
import torch

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

from etbuild import ModelContext  # noqa: E402
from etllm import entry  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

COUNT = 40
YAML = """
model:
  use_kv_cache: true
export:
  max_seq_length: 16
  max_context_length: {context}
"""
# Families with the context that they are built for.
CASES = [(family, 64) for family in sorted(tiny_checkpoint.FAMILIES)]


def built(folder: Path, context: int) -> torch.nn.Module:
    (folder / "llm.yaml").write_text(YAML.format(context=context))
    files = {f"m/{path.name}": path for path in folder.iterdir()}
    spec = entry.build(ModelContext({"backends": "portable"}, files, "//m:llm"))
    return spec.methods["forward"].module


def reference(folder: Path) -> torch.nn.Module:
    model = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    )
    return model.eval()


def tokens_of(count: int) -> torch.Tensor:
    return torch.randint(0, 255, (1, count), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("family", "context"), CASES)
def test_logits_equal_those_of_transformers(family: str, context: int, tmp_path: Path) -> None:
    """Prompts in pieces and single tokens, over a cache; a window is 6 tokens."""
    tiny_checkpoint.write(family, tmp_path, shards=2)
    tokens = tokens_of(COUNT)
    module = built(tmp_path, context)
    with torch.no_grad():
        wanted = reference(tmp_path)(tokens).logits[0]
        for start, end in ((0, 16), (16, 17), (17, 30), (30, 31), (31, COUNT)):
            got = module(tokens[:, start:end], torch.tensor([start]))[0]
            torch.testing.assert_close(got, wanted[end - 1], atol=1e-4, rtol=1e-4)


def test_the_report_names_attention_and_keys_without_effect(tmp_path: Path) -> None:
    tiny_checkpoint.write("llama", tmp_path)
    yaml = YAML.format(context=64).replace(
        "cache: true", "cache: true\n  use_sdpa_with_kv_cache: true"
    )
    (tmp_path / "llm.yaml").write_text(yaml)
    files = {f"m/{path.name}": path for path in tmp_path.iterdir()}
    for backends, variant in (("portable", "plain"), ("portable,mps", "whole_cache")):
        spec = entry.build(ModelContext({"backends": backends}, files, "//m:llm"))
        attention, key = spec.notes
        assert attention.startswith(f'Attention: variant "{variant}": ')
        assert key.startswith("m/llm.yaml:4: model.use_sdpa_with_kv_cache changes nothing")


def test_all_families_are_compared() -> None:
    from etllm.replacements import FAMILIES

    assert {family for family, _ in CASES} == set(FAMILIES)
