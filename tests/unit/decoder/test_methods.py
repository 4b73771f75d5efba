"""etllm.methods: methods that share weights and a KV cache."""

from __future__ import annotations

import torch
from etllm.entry import build
from etllm.methods import Shape, make


def test_all_methods_share_one_module(tiny, context):
    spec = build(context(tiny, methods="prefill_4,prefill_16,decode"))
    assert list(spec.methods) == ["prefill_4", "prefill_16", "decode"]
    assert len({id(method.module) for method in spec.methods.values()}) == 1
    sizes = [method.example_inputs[0].shape for method in spec.methods.values()]
    assert sizes == [(1, 4), (1, 16), (1, 1)]
    assert all(method.dynamic_shapes is None for method in spec.methods.values())
    assert spec.constant_methods["get_max_seq_len"] == 16
    assert spec.constant_methods["enable_dynamic_shape"] is False


def test_metadata_with_a_dynamic_method(tiny, context):
    spec = build(context(tiny, methods="prefill,prefill_4,decode"))
    assert spec.constant_methods["get_max_seq_len"] == 8
    assert spec.constant_methods["enable_dynamic_shape"] is True


def test_a_prompt_in_pieces_of_fixed_sizes_gives_the_same_logits(tiny, context):
    tokens = torch.tensor([[3, 17, 8, 30, 2, 25, 11, 5, 19]])
    whole = build(context(tiny, most=9)).methods["forward"].module
    spec = build(context(tiny, methods="prefill_4,decode"))
    with torch.no_grad():
        wanted = whole(tokens, torch.tensor([0]))
        for name, start, count in (("prefill_4", 0, 4), ("prefill_4", 4, 4), ("decode", 8, 1)):
            method = spec.methods[name]
            program = torch.export.export(method.module, method.example_inputs)
            inputs = (tokens[:, start : start + count], torch.tensor([start]))
            got = program.module(check_guards=False)(*inputs)
            # The exported copy has a cache of its own, so the eager module must go along.
            torch.testing.assert_close(got, method.module(*inputs))
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)


def test_inputs_start_at_position_0_and_stay_in_the_vocabulary():
    shapes = {"forward": Shape(8, dynamic=True), "prefill_16": Shape(16)}
    methods = make(shapes, dict.fromkeys(shapes, torch.nn.Identity()), 5)
    for method in methods.values():
        for tokens, position in (method.example_inputs, *method.test_inputs):
            assert position.tolist() == [0]
            assert int(tokens.max()) < 5
