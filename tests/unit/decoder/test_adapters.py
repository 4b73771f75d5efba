"""The adapters of models/adapters on SmolLM2's own file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from etbuild import ModelContext
from etllm import decoder, gguf_checkpoint, lora
from etllm.entry import build
from etllm.gguf_file import GgufFile
from etllm.hf_config import Sizes
from safetensors import safe_open

ADAPTERS = ("assistant", "summarizer")
# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
FOLDER = Path(__file__).absolute().parents[3] / "models" / "adapters"
GGUF = Path(os.environ.get("SMOLLM2_GGUF", "/no/SMOLLM2_GGUF")).absolute()


def files_of(adapter: str) -> dict[str, Path]:
    names = (lora.CONFIG, lora.WEIGHTS) if adapter else ()
    return {f"models/adapters/{adapter}/{name}": FOLDER / adapter / name for name in names}


def built(context: Callable[..., ModelContext], adapter: str) -> torch.nn.Module:
    """The first two layers with an adapter, or without if it is empty."""
    spec = build(context(GGUF, layers="2", embedding="8,32", files=files_of(adapter)))
    return spec.methods["forward"].module


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_it_fits_the_whole_model(adapter):
    sizes = Sizes(context=32, most=16)
    arch = gguf_checkpoint.architecture(GgufFile(GGUF), sizes, "//models:llama")
    model = decoder.construct(arch.args)
    folder = FOLDER / adapter
    loaded = lora.load_adapter(folder / lora.CONFIG, folder / lora.WEIGHTS, model)
    assert (loaded.rank, len(loaded.factors)) == (8, 60)
    for a, b in loaded.factors.values():
        assert float(a.std()) > 0.01
        # B begins as zero: all that it holds has been learnt.
        assert float(b.abs().max()) > 1e-3
        assert torch.isfinite(b).all()


def test_adapters_change_the_logits_of_the_first_layers_each_in_its_way(context):
    tokens = torch.tensor([[1, 9690, 198, 2683, 359]])
    results = []
    for adapter in ("", *ADAPTERS):
        module = built(context, adapter)
        with torch.no_grad():
            results.append(module(tokens, torch.tensor([0])))
    base, assistant, summarizer = results
    for one, other in ((base, assistant), (base, summarizer), (assistant, summarizer)):
        assert float((one - other).abs().max()) > 0.1


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_files_are_small_and_hold_nothing_but_the_adapter(adapter):
    folder = FOLDER / adapter
    assert (folder / lora.WEIGHTS).stat().st_size < 1_200_000
    with safe_open(folder / lora.WEIGHTS, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
    settings = json.loads((folder / lora.CONFIG).read_text())
    assert settings["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_both_have_the_same_shape_so_that_one_program_serves_both(context):
    alphas, modules = set(), []
    for adapter in ADAPTERS:
        alphas.add(json.loads((FOLDER / adapter / lora.CONFIG).read_text())["lora_alpha"])
        module = built(context, adapter)
        modules.append({name: value.shape for name, value in module.named_parameters()})
    assert len(alphas) == 2
    assert modules[0] == modules[1]


def test_training_lowers_the_loss_and_what_it_saves_computes_the_same(tiny, tmp_path):
    """On a tiny model: train, save in PEFT's layout, load, compare."""
    from models.adapters import train

    torch.manual_seed(0)
    path = tiny.write(tmp_path / "model.gguf")
    model = train.load(path, context=16)
    layers = train.add_adapter(model, rank=2)
    examples = [(torch.tensor([[3, 17, 8, 30, 2]]), 2), (torch.tensor([[1, 9, 22, 5]]), 3)]
    before = train.mean_loss(model, examples)
    train.train(model, layers, examples, steps=12, rate=0.05)
    after = train.mean_loss(model, examples)
    assert after < before - 0.2
    train.save(model, layers, alpha=6, folder=tmp_path)
    again = train.load(path, context=16)
    assert train.mean_loss(again, examples) == pytest.approx(before)
    files = tmp_path / lora.CONFIG, tmp_path / lora.WEIGHTS
    lora.attach(again, lora.load_adapter(*files, again))
    # Saved in float16.
    assert train.mean_loss(again, examples) == pytest.approx(after, abs=0.01)
    saved = lora.load_adapter(*files, again).factors["layers.0.attention.wq"][1]
    torch.testing.assert_close(
        saved, layers["model.layers.0.self_attn.q_proj"].lora_b.weight.data, atol=1e-3, rtol=1e-2
    )
