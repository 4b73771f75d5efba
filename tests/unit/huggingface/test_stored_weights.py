"""Checkpoints that are quantized already: their integers in programs, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from architectures import context
from etbuild import BuildError, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm import entry, recipes
from etlower import stages
from etlower.progress import Progress
from etlower.stored_weights import is_quantized
from safetensors import safe_open
from safetensors.torch import save_file
from test_modeling_code import YAML, written
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import quantize_
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_api import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
)

_WIDE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
    "num_hidden_layers": 1,
    "pad_token_id": 0,
}
W8 = "quantization:\n  qmode: int8\n"
W4 = "quantization:\n  qmode: 4w\n  group_size: 32\n"
A8W4 = "quantization:\n  qmode: 8da4w\n  group_size: 32\n"
DYNAMIC_4 = Int8DynamicActivationIntxWeightConfig(
    weight_dtype=torch.int4, weight_granularity=PerGroup(32)
)


def quantized(architecture: str, folder: Path, config: Any) -> tuple[Path, dict[str, Any]]:
    """The folder of a checkpoint as transformers saves a quantized model, and its tensors.

    Its integers are small: who quantizes their floats anew gets others.
    """
    written(architecture, folder / "floats", **_WIDE)
    model = hf.AutoModelForCausalLM.from_pretrained(
        folder / "floats", quantization_config=hf.TorchAoConfig(config), dtype=torch.float32
    )
    model.save_pretrained(folder / "quantized")
    path = folder / "quantized/model.safetensors"
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors |= {n: t // 2 for n, t in tensors.items() if n.endswith("_qdata")}
    save_file(tensors, path, metadata)
    return path.parent, tensors


def made(folder: Path, yaml: str, lower: bool = False) -> tuple[bytes, list[str]]:
    """The program of a checkpoint, or the bytes of what it is exported from; and notes."""
    (folder / "llm.yaml").write_text((YAML + yaml).lstrip())
    spec = entry.build(context(folder, backends="xnnpack"))
    options = Options({"backend": "xnnpack"}, "//m:r")
    recipe = recipes.build(RecipeContext(options, "//m:r", {"llm.yaml": folder / "llm.yaml"}))
    notes: list[str] = []
    if not lower:
        modules = {name: method.module for name, method in spec.methods.items()}
        modules = stages.quantized_sources(modules, recipe, "//m:net", notes.append)
        weights = [m.weight for m in modules["forward"].modules() if is_quantized(m)]
        tensors = [each for w in weights for each in (w.qdata, w.scale)]
        tensors += modules["forward"].buffers()
        return b"".join(map(as_they_are, tensors)), notes
    watch = stages.Watch(noted=notes.append)
    with fast_path.chosen("fast"):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False, watch=watch)
    return manager.buffer, notes


def for_kernels(numbers: torch.Tensor) -> bytes:
    """4-bit integers as XNNPACK's kernels take them: of two neighbors, the first in lower bits."""
    shifted = (numbers + 8).to(torch.uint8)
    return (shifted[:, 1::2] << 4 | shifted[:, ::2]).contiguous().numpy().tobytes()


def for_operators(numbers: torch.Tensor) -> bytes:
    """The same as plain operators take them: the halves of a group, the first in upper bits."""
    halves = (numbers.view(len(numbers), -1, 2, 16) + 8).to(torch.uint8)
    return (halves[:, :, 0] << 4 | halves[:, :, 1]).contiguous().numpy().tobytes()


def as_they_are(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("architecture", "config", "yaml", "pack"),
    [
        # With layers of et_llm, and with those of transformers.
        ("qwen3", DYNAMIC_4, A8W4, for_kernels),
        ("olmo2", DYNAMIC_4, A8W4, as_they_are),
        ("llama", Int8WeightOnlyConfig(), W8, as_they_are),
        ("phi3", IntxWeightOnlyConfig(torch.int4, PerGroup(32)), W4, for_operators),
    ],
)
def test_programs_have_the_integers_of_torchao(
    architecture: str, config: Any, yaml: str, pack: Any, tmp_path: Path
) -> None:
    folder, tensors = quantized(architecture, tmp_path, config)
    program, notes = made(folder, yaml, lower=pack is not as_they_are)
    numbers = {name: each for name, each in tensors.items() if name.endswith("_qdata")}
    assert len(numbers) == (4 if architecture == "phi3" else 7)
    for name, each in numbers.items():
        scales = tensors[name.replace("qdata", "scale")]
        # Of fused matrices, the rows of queries and of the gate are layers.
        rows = {"qkv": 64, "gate_up": 96}.get(name.split(".")[-2].split("_proj")[0], len(each))
        assert pack(each[:rows]) in program, name
        kept = scales.to(torch.bfloat16).view(torch.int16) if pack is for_kernels else scales
        assert as_they_are(kept[:rows]) in program, name
    assert len([note for note in notes if "have the integers and scales of" in note]) == 1, notes


@pytest.mark.parametrize(
    ("config", "yaml", "message"),
    [
        (
            DYNAMIC_4,
            "",
            "model.safetensors has 4-bit weights with a scale for 32 columns beside int8_asym_per_"
            "token activations, and the recipe gives no quantization by torchao",
        ),
        (DYNAMIC_4, A8W4.replace("32", "64"), "gives 4-bit weights with a scale a row beside int8"),
        (DYNAMIC_4, W4, "and the recipe gives 4-bit weights with a scale for 32 columns.\n"),
        (
            Int8WeightOnlyConfig(),
            W4,
            "8-bit weights with a scale a row, and the recipe gives 4",
        ),
        (
            Int8DynamicActivationInt8WeightConfig(),
            W8,
            "got torchao's Int8Tensor, expected IntxUnpackedToInt8Tensor, or Int8Tensor without",
        ),
    ],
)
def test_another_scheme_is_an_error(config: Any, yaml: str, message: str, tmp_path: Path) -> None:
    folder, _ = quantized("qwen3", tmp_path, config)
    with pytest.raises(BuildError) as caught:
        made(folder, yaml)
    assert message in str(caught.value)
    assert "q_proj" in str(caught.value) or "attention.wq" in str(caught.value)


def test_an_embedding_keeps_its_rows(tmp_path: Path) -> None:
    config = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
    written("qwen3", tmp_path / "floats", **_WIDE)
    model = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "floats", dtype=torch.float32)
    quantize_(model, config, lambda module, _: isinstance(module, torch.nn.Embedding))
    tensors, metadata = flatten_tensor_state_dict(model.state_dict())
    folder = tmp_path / "quantized"
    folder.mkdir()
    (folder / "config.json").write_text((tmp_path / "floats/config.json").read_text())
    save_file(tensors, folder / "model.safetensors", metadata)
    with pytest.raises(BuildError, match=r'embedding_quantize: got nothing .*expected "8,0"'):
        made(folder, "")
    with pytest.raises(BuildError, match=r'embedding_quantize: got "8,32", expected "8,0"'):
        made(folder, "quantization:\n  embedding_quantize: 8,32\n")
    program, _ = made(folder, "quantization:\n  embedding_quantize: 8,0\n")
    for part in ("qdata", "scale"):
        assert as_they_are(tensors[f"model.embed_tokens._weight_{part}"]) in program


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    folder, tensors = quantized("qwen3", tmp_path, DYNAMIC_4)
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    name = "model.layers.0.self_attn.q_proj._weight_scale"

    def message(tensors: dict[str, Any], **values: str) -> str:
        save_file(tensors, path, {**metadata, **values})
        with pytest.raises(BuildError) as caught:
            made(folder, A8W4)
        return str(caught.value)

    assert "torchao cannot read it: ValueError: Failed to create" in message(
        {**tensors, name: torch.ones(3, 3)}
    )
    assert "got 2 of its 3 parts, expected " in message(
        {n: t for n, t in tensors.items() if n != name}
    )
    entry_name = "model.layers.0.self_attn.q_proj.weight"
    other = json.loads(metadata[entry_name]) | {"_type": "Unknown"}
    assert "torchao cannot read it: ValueError" in message(
        tensors, **{entry_name: json.dumps(other)}
    )
