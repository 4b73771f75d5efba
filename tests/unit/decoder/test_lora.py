"""etllm.lora: reading PEFT's files, the arithmetic, the rotary layout, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, ModelContext
from etllm import lora
from etllm.entry import adapter, build
from safetensors.torch import save_file
from torchao.quantization import quantize_
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

TOKENS = torch.tensor([[3, 17, 8, 30, 2, 25]])
RANK, WIDTH, HEADS, KV_HEADS, HIDDEN = 4, 64, 4, 2, 96
KV = WIDTH * KV_HEADS // HEADS
# Rows and columns of each layer in the model of conftest.py.
SHAPES = {
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (KV, WIDTH),
    "self_attn.v_proj": (KV, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (HIDDEN, WIDTH),
    "mlp.up_proj": (HIDDEN, WIDTH),
    "mlp.down_proj": (WIDTH, HIDDEN),
}
GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
QV = ("self_attn.q_proj", "self_attn.v_proj")
A0 = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B0 = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"


def config(**changes: Any) -> dict[str, Any]:
    """An adapter_config.json for q_proj and v_proj, changed."""
    values = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "bias": "none"}
    values |= {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    return values | changes


def tensors(*targets: str, layers: int = 3) -> dict[str, torch.Tensor]:
    """Random matrices for all layers; default: of q_proj and v_proj."""
    random = torch.Generator().manual_seed(11)
    made = {}
    for number in range(layers):
        for target in targets or QV:
            rows, columns = SHAPES[target]
            a, b = lora.tensor_names(f"model.layers.{number}.{target}")
            made[a] = torch.randn(RANK, columns, generator=random) * 0.3
            made[b] = torch.randn(rows, RANK, generator=random) * 0.3
    return made


@pytest.fixture
def adapted(tiny, context, tmp_path: Path) -> Callable[..., Any]:
    """A function that writes an adapter and calls an entry point of the tiny model with it."""

    def make(
        settings: Mapping[str, Any] | str | None = None,
        weights: Mapping[str, torch.Tensor] | bytes | None = None,
        entry_point: Callable[[ModelContext], Any] = build,
        **args: str,
    ) -> Any:
        files = {f"a/{name}": tmp_path / name for name in (lora.CONFIG, lora.WEIGHTS)}
        text = settings if isinstance(settings, str) else json.dumps(settings or config())
        (tmp_path / lora.CONFIG).write_text(text)
        if isinstance(weights, bytes):
            (tmp_path / lora.WEIGHTS).write_bytes(weights)
        else:
            save_file(tensors() if weights is None else dict(weights), tmp_path / lora.WEIGHTS)
        return entry_point(context(tiny, files=files, **args))

    return make


def logits(spec: Any) -> torch.Tensor:
    with torch.no_grad():
        return spec.methods["forward"].module(TOKENS, torch.tensor([0]))


def merge(tiny, weights: Mapping[str, torch.Tensor], scale: float) -> None:
    """Adds the adapter's products to the model's own weights, in the layout of GGUF files."""
    for name, a in weights.items():
        if "lora_A" not in name:
            continue
        product = weights[name.replace("lora_A", "lora_B")] @ a * scale
        _, number, block, layer = name.removeprefix("base_model.model.model.").split(".")[:4]
        if layer in ("q_proj", "k_proj"):
            heads = HEADS if layer == "q_proj" else KV_HEADS
            # As in llama.cpp's convert_hf_to_gguf.py, LlamaModel.permute.
            rows = product.reshape(heads, 2, product.shape[0] // heads // 2, product.shape[1])
            product = rows.swapaxes(1, 2).reshape(product.shape)
        key = f"blk.{number}.{GGUF_NAMES[f'{block}.{layer}']}.weight"
        tiny.tensors[key] = tiny.tensors[key] + product.numpy()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("changes", "targets", "scale"),
    [
        ({}, QV, 2.0),
        ({"lora_alpha": 1}, QV, 0.25),
        ({"use_rslora": True}, QV, 4.0),
        ({"target_modules": "all-linear"}, tuple(SHAPES), 2.0),
        ({"target_modules": r".*\.(k_proj|down_proj)"}, tuple(SHAPES)[1::5], 2.0),
        ({"target_modules": ["self_attn.k_proj"]}, ("self_attn.k_proj",), 2.0),
    ],
)
def test_it_equals_weights_that_the_product_is_added_to(
    tiny, adapted, context, changes, targets, scale
):
    weights = tensors(*targets)
    got = logits(adapted(config(**changes), weights))
    before = logits(build(context(tiny)))
    merge(tiny, weights, scale)
    wanted = logits(build(context(tiny)))
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    assert (before - wanted).abs().max() > 0.05


def test_all_that_peft_writes_by_default_is_taken(adapted):
    """The fields and defaults of PEFT 0.21."""
    off = "alora_invocation_tokens arrow_config auto_mapping base_model_name_or_path corda_config"
    off += " eva_config exclude_modules kasa_config layer_replication layers_pattern revision"
    off += " layers_to_transform lora_ga_config megatron_config modules_to_save monteclora_config"
    off += " target_parameters trainable_token_indices use_bdlora velora_config"
    false = "ensure_weight_tying fan_in_fan_out lora_bias use_dora use_qalora use_rslora"
    written = dict.fromkeys(off.split()) | dict.fromkeys(false.split(), False)
    written |= {"alpha_pattern": {}, "rank_pattern": {}, "loftq_config": {}}
    written |= {"inference_mode": True, "init_lora_weights": True, "lora_dropout": 0.0}
    written |= {"megatron_core": "megatron.core", "peft_version": "0.21.2", "qalora_group_size": 16}
    assert torch.equal(logits(adapted(config(**written))), logits(adapted()))


def test_layers_can_be_chosen_and_left_out(adapted):
    kept = {k: v for k, v in tensors().items() if ".layers.1." in k and "v_proj" in k}
    settings = config(layers_to_transform=1, exclude_modules=["q_proj"])
    module = adapted(settings, kept).methods["forward"].module
    found = [n for n, m in module.named_modules() if isinstance(m, lora.LoraLinear)]
    assert found == ["transformer.layers.1.attention.wv"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types_become_float32(adapted, dtype):
    narrow = {name: value.to(dtype) for name, value in tensors().items()}
    wide = {name: value.to(torch.float32) for name, value in narrow.items()}
    assert torch.equal(logits(adapted(None, narrow)), logits(adapted(None, wide)))


def test_a_cut_model_takes_the_first_layers_of_an_adapter(tiny, adapted, context):
    got = logits(adapted(layers="2"))
    merge(tiny, tensors(), 2.0)
    wanted = logits(build(context(tiny, layers="2")))
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)


def test_the_tensors_of_a_cut_model_are_named_and_the_others_unused(adapted):
    module = adapted(layers="2").methods["forward"].module
    named = adapted(entry_point=adapter, layers="2")
    unused = {name for name, tensor in named.items() if tensor is None}
    assert unused == {name for name in tensors() if ".layers.2." in name}
    state = {name: t for name, t in module.state_dict().items() if ".lora_" in name}
    assert {*named} - unused == {*state}
    assert all(torch.equal(named[name], tensor) for name, tensor in state.items())
    assert None not in adapted(entry_point=adapter).values()


def test_what_a_cut_leaves_out_is_checked_all_the_same(adapted):
    weights = tensors()
    weights[A0.replace("layers.0", "layers.2")] = torch.zeros(RANK, 8)
    with pytest.raises(BuildError, match=r"layers\.2\..*got shape \(4, 8\), expected \(4, 64\)"):
        adapted(None, weights, layers="2")


def test_names_of_weights_stay_and_those_of_the_adapter_are_added(tiny, adapted, context):
    def names(spec: Any) -> list[str]:
        return [name for name, _ in spec.methods["forward"].module.named_parameters()]

    base, with_adapter = names(build(context(tiny))), names(adapted())
    assert set(base) < set(with_adapter)
    added = sorted(set(with_adapter) - set(base))
    assert len(added) == 3 * 2 * 2
    assert added[:2] == [
        "transformer.layers.0.attention.wq.lora_a.weight",
        "transformer.layers.0.attention.wq.lora_b.weight",
    ]


def test_the_scale_is_folded_so_that_programs_are_the_same(adapted):
    """Equal graphs for another alpha; only the values of B differ."""

    def exported(spec: Any) -> torch.export.ExportedProgram:
        method = spec.methods["forward"]
        return torch.export.export(
            method.module, method.example_inputs, dynamic_shapes=method.dynamic_shapes
        )

    one, two = exported(adapted(config(lora_alpha=8))), exported(adapted(config(lora_alpha=24)))
    assert one.graph_module.code == two.graph_module.code
    assert list(one.state_dict) == list(two.state_dict)
    for name, value in one.state_dict.items():
        factor = 3 if name.endswith("lora_b.weight") else 1
        torch.testing.assert_close(two.state_dict[name], value * factor)


def test_quantization_takes_the_base_and_leaves_the_adapter(tiny, adapted, context):
    settings = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    )
    modules = [spec.methods["forward"].module for spec in (build(context(tiny)), adapted())]
    for module in modules:
        quantize_(module, settings)
    name = "transformer.layers.0.attention.wq"
    base, wrapped = (module.get_submodule(name) for module in modules)
    assert type(wrapped.weight) is type(base.weight) is not torch.nn.Parameter
    assert torch.equal(wrapped.weight.qdata, base.weight.qdata)
    assert torch.equal(wrapped.weight.scale, base.weight.scale)
    for factor in (wrapped.lora_a, wrapped.lora_b):
        assert type(factor.weight) is torch.nn.Parameter
        assert factor.weight.dtype == torch.float32


def rotated_in_halves(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor:
    """Hugging Face's rotary embedding of (positions, heads, size)."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half) / half)
    angles = torch.cat([torch.outer(positions, speeds)] * 2, dim=-1)[:, None, :]
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * angles.cos() + turned * angles.sin()


def rotated_in_pairs(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor:
    """Meta's rotary embedding of (positions, heads, size): neighbors are complex numbers."""
    half = x.shape[-1] // 2
    angles = torch.outer(positions, base ** (-torch.arange(half) / half))[:, None, :]
    numbers = torch.view_as_complex(x.reshape(*x.shape[:-1], half, 2))
    turned = numbers * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).reshape(x.shape)


def test_the_layout_of_rows_agrees_with_both_rotary_embeddings():
    """Scores of queries and keys are the same in both layouts, once the rows are permuted."""
    heads, size, positions = 3, 8, torch.arange(5.0)
    x = torch.randn(5, 16)
    wq, wk = torch.randn(heads * size, 16), torch.randn(heads * size, 16)

    def scores(rotated: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        q, k = (rotated((x @ w.T).view(5, heads, size), positions, 100.0) for w in (q, k))
        return torch.einsum("nhs,mhs->hnm", q, k)

    wanted = scores(rotated_in_halves, wq, wk)
    permuted = [lora.to_interleaved(w, heads) for w in (wq, wk)]
    torch.testing.assert_close(scores(rotated_in_pairs, *permuted), wanted, atol=1e-4, rtol=1e-4)
    assert (scores(rotated_in_pairs, wq, wk) - wanted).abs().max() > 1
    assert torch.equal(lora.to_half_split(permuted[0], heads), wq)


def test_an_adapter_of_one_file_is_an_error(tiny, context, tmp_path):
    files = {"a/adapter_config.json": tmp_path / lora.CONFIG}
    with pytest.raises(BuildError, match='asks for the file "adapter_model.safetensors"'):
        build(context(tiny, files=files))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, '"peft_type": got "LOHA", expected "LORA".*\n.*merge_and_unload'),
        ({"bias": "all"}, '"bias": got "all", expected "none"'),
        ({"use_dora": True}, '"use_dora": got true, expected false'),
        ({"fan_in_fan_out": True}, '"fan_in_fan_out": got true'),
        (
            {"rank_pattern": {"q_proj": 2}},
            '"rank_pattern": got {"q_proj": 2}, expected false, null',
        ),
        ({"alpha_pattern": {"q_proj": 2}}, '"alpha_pattern": got'),
        ({"use_bdlora": {"nblocks": 2}}, '"use_bdlora": got {"nblocks": 2}'),
        ({"modules_to_save": ["lm_head"]}, r'"modules_to_save": got \["lm_head"\]'),
        ({"init_lora_weights": "pissa"}, '"init_lora_weights": got "pissa"'),
        ({"r": 0}, '"r": got 0, expected a whole number of at least 1'),
        ({"r": True}, '"r": got true, expected a whole number'),
        ({"r": None}, '"r": got null, expected'),
        ({"lora_alpha": "16"}, '"lora_alpha": got "16", expected a number'),
        ({"use_rslora": 1}, '"use_rslora": got 1, expected true or false'),
        ({"target_modules": []}, r'"target_modules": got \[\], expected a list of layer names'),
        ({"target_modules": [1]}, '"target_modules".*expected a list of layer names'),
        ({"target_modules": "(q"}, r'"target_modules": got "\(q", expected a regular expression'),
        ({"target_modules": "nope"}, '"nope" is no linear layer of the model'),
        (
            {"target_modules": ["q_proj", "qkv_proj"]},
            '"target_modules": "qkv_proj" is no linear layer.*q_proj, k_proj, v_proj, o_proj',
        ),
        ({"layers_to_transform": "1"}, '"layers_to_transform": got "1", expected a number'),
        ({"target_modules": "(.*)*x"}, "expected a regular expression without repeats in repeats"),
        ({"target_modules": r"(l|\w+)+"}, "without repeats in repeats"),
        ({"exclude_modules": ".*.*.*.*.*.*x"}, "without repeats in repeats"),
        ({"r": 10**400}, '"r": got 1000.*expected a whole number of at least 1'),
        ({"lora_alpha": 10**400}, '"lora_alpha": got 1000.*expected a number'),
        ({"lora_alpha": float("nan")}, '"lora_alpha": got NaN, expected a number'),
        ({"layers_to_transform": [7]}, "leave no layer of the model"),
    ],
)
def test_a_wrong_setting_is_named(adapted, changes, message):
    with pytest.raises(BuildError, match=rf"adapter_config\.json: .*{message}"):
        adapted(config(**changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON: Expecting property name"),
        ("[]", "got a list, expected a JSON object"),
        ("[" * 100_000, "it is not JSON: it is nested too deeply"),
    ],
)
def test_a_broken_configuration_is_named(adapted, text, message):
    with pytest.raises(BuildError, match=rf"adapter_config\.json: {message}"):
        adapted(text)


def test_an_absent_file_is_named(tiny, adapted, tmp_path):
    model = adapted().methods["forward"].module.transformer
    with pytest.raises(BuildError, match=r"no\.json: cannot be read: No such file"):
        lora.load_adapter(tmp_path / "no.json", tmp_path / lora.WEIGHTS, model)
    with pytest.raises(BuildError, match=r"no\.safetensors.*cannot be read"):
        lora.load_adapter(tmp_path / lora.CONFIG, tmp_path / "no.safetensors", model)


def without(*names: str) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tensors().items() if name not in names}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (without(A0), r"expected 12 tensors .*; 1 are missing: .*layers\.0\.\S*q_proj\.lora_A"),
        (without(B0), r"1 are missing: .*layers\.0\.\S*q_proj\.lora_B"),
        (tensors(layers=2), r"4 are missing: .*layers\.2"),
        ({}, r"expected 12 tensors .*; 12 are missing"),
        (tensors(layers=4), r"4 tensors are not part of the model .*layers\.3"),
        (tensors("mlp.up_proj"), r"6 tensors are not part .*up_proj.* Missing are 12: .*q_proj"),
        (
            tensors() | {"base_model.model.lm_head.lora_A.weight": torch.zeros(4, 64)},
            r"1 tensors are not part.*lm_head\.lora_A",
        ),
        (
            tensors() | {A0: torch.zeros(8, 64)},
            r'q_proj\.lora_A\.weight": got shape \(8, 64\), expected \(4, 64\) \(r = 4\)',
        ),
        (
            tensors() | {B0: torch.zeros(32, 4)},
            r'q_proj\.lora_B\.weight": got shape \(32, 4\), expected \(64, 4\) \(r = 4\)',
        ),
        (
            tensors() | {A0: torch.zeros(4, 64, dtype=torch.int8)},
            r'lora_A\.weight" is stored as I8, expected one of F32, F16, BF16, F64',
        ),
        (b"no safetensors", "expected a complete safetensors file; found 14 bytes"),
        (b"", "expected a complete safetensors file; found 0 bytes"),
    ],
)
def test_wrong_weights_are_named(adapted, weights, message):
    with pytest.raises(BuildError, match=rf"adapter_model\.safetensors: .*{message}"):
        adapted(None, weights)


def test_a_truncated_file_is_an_error(adapted, tmp_path):
    adapted()
    whole = (tmp_path / lora.WEIGHTS).read_bytes()
    for size in (len(whole) - 4, len(whole) // 2, 20):
        with pytest.raises(BuildError, match=f"complete safetensors file; found {size} bytes"):
            adapted(None, whole[:size])
