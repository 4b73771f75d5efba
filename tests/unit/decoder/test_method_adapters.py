"""Adapters of methods: which modules they get, and what the YAML file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
import torch
from etbuild import BuildError, ModelContext
from etllm import entry, lora

TOKENS = torch.tensor([[3, 170, 8, 30]])
YAML = """\
model:
  use_kv_cache: true
export:
  max_seq_length: 16
  max_context_length: 32
multimethod:
  share_mutable_buffers: true
  methods:
    - method_name: forward
    - method_name: poet_forward
      lora_config:
        adapter_checkpoint: poet/adapter_model.safetensors
        adapter_config: poet/adapter_config.json
"""


@pytest.fixture
def build(tmp_path: Path):
    """A function from a YAML file's text, and the target's arguments, to a ModelSpec."""
    tiny_checkpoint.write("qwen3", tmp_path / "base")
    tiny_checkpoint.write_adapter("qwen3", tmp_path / "poet")

    def make(yaml: str, **args: str) -> Any:
        (tmp_path / "base/llm.yaml").write_text(yaml)
        files = {f"m/{path.relative_to(tmp_path)}": path for path in sorted(tmp_path.glob("*/*"))}
        if args.pop("without", ""):
            files = {name: path for name, path in files.items() if "/poet/" not in name}
        return entry.build(ModelContext({"backends": "portable"} | args, files, "//m:llm"))

    return make


def logits(module: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return module(TOKENS, torch.tensor([0]))


def test_each_method_has_its_adapter_over_the_same_tensors(build) -> None:
    head, _, _ = YAML.partition("multimethod:")
    base = logits(build(head, without="yes").methods["forward"].module)
    poet = logits(build(head).methods["forward"].module)
    methods = build(YAML, method_adapters="true").methods
    plain, adapted = (methods[name].module for name in ("forward", "poet_forward"))
    assert not torch.equal(base, poet)
    assert torch.equal(logits(plain), base)
    assert torch.equal(logits(adapted), poet)
    ours = {name: t.data_ptr() for name, t in plain.state_dict(keep_vars=True).items()}
    theirs = {name: t.data_ptr() for name, t in adapted.state_dict(keep_vars=True).items()}
    assert {name: theirs[name] for name in ours} == ours
    assert all("lora_" in name for name in set(theirs) - set(ours))


def test_an_adapter_has_the_type_of_the_model(build) -> None:
    yaml = YAML.replace("kv_cache: true", "kv_cache: true\n  dtype_override: fp16")
    module = build(yaml, method_adapters="true").methods["poet_forward"].module
    factors = [m for m in module.modules() if isinstance(m, lora.Factor)]
    assert factors and all(m.weight.dtype == torch.float16 for m in factors)
    assert logits(module).dtype == torch.float16


@pytest.mark.parametrize(
    ("change", "args", "expected"),
    [
        (
            ("", ""),
            {},
            "llm.yaml:11: multimethod.methods.1.lora_config: got a section, expected nothing: "
            "//m:llm has no adapters for methods.",
        ),
        (
            ("poet/adapter_config", "bard/adapter_config"),
            {"method_adapters": "true"},
            'adapter_config: got "bard/adapter_config.json", expected the end of one path of the '
            "target's files: m/poet/adapter_config.json, m/poet/adapter_model.safetensors.",
        ),
        (
            ("        adapter_config: poet/adapter_config.json\n", ""),
            {"method_adapters": "true"},
            "adapter_config: got nothing (upstream's default), expected the end of one path",
        ),
        (
            (YAML[YAML.index("    - method_name: poet") :], ""),
            {"method_adapters": "true"},
            "//m:llm: method_adapters: got m/poet/adapter_config.json, expected files that",
        ),
        (
            ("poet_forward", "poet"),
            {"method_adapters": "true"},
            'method_name: got "poet", expected an adapter\'s name and "_" before forward, prefill',
        ),
        (
            ("poet_forward", "poet_decode"),
            {"method_adapters": "true"},
            'expected forward; or decode and a prefill of "poet_"',
        ),
        (
            ("adapter_config: ", "lora_rank: 8\n        adapter_config: "),
            {"method_adapters": "true"},
            "lora_config.lora_rank: got 8, which is not supported: the adapter's own",
        ),
    ],
)
def test_refused_adapters(build, change, args, expected) -> None:
    with pytest.raises(BuildError) as caught:
        build(YAML.replace(*change) if change[0] else YAML, **args)
    assert expected in str(caught.value)
