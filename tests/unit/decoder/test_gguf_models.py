"""Models of GGUF files: configuration, mapping, methods and errors."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from etbuild import BuildError
from etllm.entry import build
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs

Q8_0 = gguf.GGMLQuantizationType.Q8_0
TOKENS = torch.tensor([[3, 17, 8, 30, 2, 25, 11, 5, 19]])


def reference(tiny, layers: int = 3) -> torch.nn.Module:
    """ExecuTorch's own Transformer, attention and norm with the same weights."""
    params = ModelArgs(
        dim=64,
        n_layers=layers,
        n_heads=4,
        n_kv_heads=2,
        hidden_dim=96,
        vocab_size=40,
        norm_eps=2e-5,
        rope_theta=5000.0,
        max_seq_len=16,
        max_context_len=16,
    )
    model = construct_transformer(params)
    names = {"tok_embeddings": "token_embd", "output": "token_embd", "norm": "output_norm"}
    parts = {"attention.wq": "attn_q", "attention.wk": "attn_k", "attention.wv": "attn_v"}
    parts |= {"attention.wo": "attn_output", "attention_norm": "attn_norm", "ffn_norm": "ffn_norm"}
    parts |= {f"feed_forward.w{i}": f"ffn_{n}" for i, n in ((1, "gate"), (2, "down"), (3, "up"))}
    for i in range(layers):
        names |= {f"layers.{i}.{a}": f"blk.{i}.{b}" for a, b in parts.items()}
    weights = {
        f"{ours}.weight": torch.from_numpy(tiny.tensors[f"{theirs}.weight"])
        for ours, theirs in names.items()
    }
    model.load_state_dict(weights)
    return model.eval()


def call(spec, method: str, tokens: torch.Tensor, position: int) -> torch.Tensor:
    with torch.no_grad():
        return spec.methods[method].module(tokens, torch.tensor([position]))


def test_prefill_and_decode_equal_executorchs_own_model(tiny, context):
    spec = build(context(tiny))
    expected = reference(tiny)
    for start, end in ((0, 4), (4, 7), (7, 8), (8, 9)):
        logits = call(spec, "forward", TOKENS[:, start:end], start)
        with torch.no_grad():
            wanted = expected(TOKENS[:, :end])
        assert logits.shape == (1, 40)
        torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=1e-4)


def test_a_conversation_can_go_back_and_on(tiny, context):
    spec = build(context(tiny))
    first = call(spec, "forward", TOKENS[:, :6], 0)
    call(spec, "forward", TOKENS.flip(1)[:, :8], 0)
    assert torch.equal(call(spec, "forward", TOKENS[:, :6], 0), first)


def test_layers_cuts_the_model(tiny, context):
    spec = build(context(tiny, layers="2"))
    assert spec.constant_methods["get_n_layers"] == 2
    with torch.no_grad():
        wanted = reference(tiny, layers=2)(TOKENS[:, :8])
    torch.testing.assert_close(
        call(spec, "forward", TOKENS[:, :8], 0), wanted, atol=1e-4, rtol=1e-4
    )


def test_an_output_head_of_its_own_is_used(tiny, context):
    tied = call(build(context(tiny)), "forward", TOKENS[:, :4], 0)
    tiny.tensors["output.weight"] = tiny.tensors["token_embd.weight"] * np.float32(2)
    spec = build(context(tiny))
    torch.testing.assert_close(call(spec, "forward", TOKENS[:, :4], 0), tied * 2)


def test_an_embedding_stored_in_8_bits_stays_so_and_loses_nothing(tiny, context):
    tiny.types["token_embd.weight"] = Q8_0
    small = build(context(tiny, embedding="8,32"))
    large = build(context(tiny))
    kinds = [
        {str(buffer.dtype) for buffer in spec.methods["forward"].module.buffers()}
        for spec in (small, large)
    ]
    assert ["torch.int8" in kind for kind in kinds] == [True, False]
    results = [call(spec, "forward", TOKENS[:, :5], 0) for spec in (small, large)]
    assert torch.equal(*results)


def test_an_embedding_can_be_rounded_to_8_bits(tiny, context):
    exact = call(build(context(tiny)), "forward", TOKENS[:, :5], 0)
    near = call(build(context(tiny, embedding="8,32")), "forward", TOKENS[:, :5], 0)
    assert not torch.equal(exact, near)
    torch.testing.assert_close(near, exact, atol=0.2, rtol=0.1)


def test_metadata_are_those_that_runners_read(tiny, context):
    assert build(context(tiny)).constant_methods == {
        "get_bos_id": 1,
        "get_eos_ids": [2, 5],
        "get_max_seq_len": 8,
        "get_max_context_len": 16,
        "get_vocab_size": 40,
        "get_n_layers": 3,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
    }


def test_two_methods_share_one_module(tiny, context):
    spec = build(context(tiny, methods="prefill,decode"))
    assert set(spec.methods) == {"prefill", "decode"}
    assert spec.methods["prefill"].module is spec.methods["decode"].module
    assert spec.methods["decode"].dynamic_shapes is None


@pytest.mark.parametrize("methods", ["", "prefill,decode"])
def test_it_exports_with_any_number_of_tokens(tiny, context, methods):
    spec = build(context(tiny, layers="1", methods=methods))
    method = next(iter(spec.methods.values()))
    shapes = method.dynamic_shapes
    program = torch.export.export(method.module, method.example_inputs, dynamic_shapes=shapes)
    module = program.module(check_guards=False)
    for count in (1, 2, 8):
        inputs = (TOKENS[:, :count], torch.tensor([3]))
        with torch.no_grad():
            assert torch.equal(module(*inputs), method.module(*inputs))


def test_weights_have_no_gradient_and_none_is_left_out(tiny, context):
    module = build(context(tiny)).methods["forward"].module
    assert not any(weight.requires_grad for weight in module.parameters())
    assert not any(weight.is_meta for weight in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": "4"}, "//m:llama: layers: got 4, expected at most 3"),
        ({"layers": "0"}, '//m:llama.*"layers".*at least 1'),
        ({"layers": "all"}, '//m:llama.*"layers".*whole number'),
        ({"length": 33}, "//m:llama: export.max_context_length: got 33, expected at most 32"),
        ({"length": 8, "most": 9}, "tiny/llm.yaml:.*max_context_length"),
        ({"sequence": "9"}, '//m:llama.*unknown option "sequence"'),
    ],
)
def test_a_wrong_argument_is_named(tiny, context, values, message):
    with pytest.raises(BuildError, match=message):
        build(context(tiny, **values))


def test_a_missing_tensor_is_named(tiny, context):
    del tiny.tensors["blk.1.ffn_up.weight"]
    with pytest.raises(BuildError, match=r'model.gguf.*"blk.1.ffn_up.weight" of shape \(96, 64\)'):
        build(context(tiny))


@pytest.mark.parametrize("embedding", ["", "8,32"])
def test_a_missing_embedding_is_named(tiny, context, embedding):
    del tiny.tensors["token_embd.weight"]
    with pytest.raises(BuildError, match='"token_embd.weight"'):
        build(context(tiny, embedding=embedding))


def test_a_tensor_without_a_place_is_named(tiny, context):
    tiny.tensors["blk.0.attn_q.bias"] = np.zeros(64, np.float32)
    with pytest.raises(BuildError, match=r"1 tensors are not part.*blk\.0\.attn_q\.bias"):
        build(context(tiny))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("general.architecture", "gpt2", 'general.architecture: got "gpt2", expected one of llama'),
        ("llama.rope.scaling.type", "yarn", "got 'yarn', expected 'none'"),
        ("llama.rope.dimension_count", 8, "got 8, expected 16"),
        ("llama.expert_count", 8, "got 8, expected 0"),
    ],
)
def test_another_kind_of_model_is_refused(tiny, context, key, value, message):
    tiny.metadata[key] = value
    with pytest.raises(BuildError, match=message):
        build(context(tiny))


def test_a_truncated_file_is_named(tiny, context, tmp_path):
    path = tiny.write(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(BuildError, match=r"cut\.gguf: the file is truncated"):
        build(context(path))
