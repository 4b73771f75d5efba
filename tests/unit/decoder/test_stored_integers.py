"""GGUF files' integers in programs whose recipe has their scheme."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import portable_recipes
import pytest
import torch
import xnnpack_recipes
from etbuild import RecipeContext
from etbuild.options import Options
from etllm import entry
from etlower import stages
from etlower.progress import Progress

Q4_0, Q8_0 = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0
_LINEARS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


@pytest.fixture
def spec(tiny: Any, context: Any) -> Any:
    """A function from a type to the model of a file whose linear layers have it."""

    def make(kind: gguf.GGMLQuantizationType) -> Any:
        names = [name for name in tiny.tensors if name.split(".")[-2] in _LINEARS]
        tiny.types = dict.fromkeys(names, kind)
        # A block of zeros, whose scale is 0.
        tiny.tensors["blk.0.attn_q.weight"][0, :32] = 0
        return entry.build(context(tiny, layers="1"))

    return make


def recipe_of(build: Any, **options: str) -> Any:
    return build(RecipeContext(Options(options, "//m:r"), "//m:r"))


def quantized(spec: Any, recipe: Any) -> tuple[torch.Tensor, list[str]]:
    """The first layer's queries as the recipe has them, and notes."""
    notes: list[str] = []
    modules = {name: method.module for name, method in spec.methods.items()}
    made = stages.quantized_sources(modules, recipe, "//m:net", notes.append)
    return made["forward"].transformer.layers[0].attention.wq.weight, notes


def integers(values: np.ndarray) -> np.ndarray:
    """Integers of Q4_0, by GGML's own packing: -8 to 7."""
    blocks = gguf.quants.quantize(values, Q4_0).reshape(len(values), -1, 18)[:, :, 2:]
    numbers = np.concatenate((blocks & 15, blocks >> 4), axis=-1).astype(np.int8) - 8
    return numbers.reshape(values.shape)


@pytest.mark.release
def test_q4_0_is_kept_bit_for_bit(spec: Any, tiny: Any) -> None:
    """Beside floating activations, in a program: integers, and scales in 32 bits."""
    model, recipe = spec(Q4_0), recipe_of(portable_recipes.int4_weight_only, group_size="32")
    notes: list[str] = []
    watch = stages.Watch(noted=notes.append)
    program = stages.run(model, recipe, Progress(), "//m:net", etrecord=False, watch=watch).buffer
    for name in (name for name in tiny.types if name.startswith("blk.0.")):
        numbers = integers(tiny.tensors[name])
        halves = (numbers.reshape(len(numbers), -1, 2, 16) + 8).astype(np.uint8)
        assert (halves[:, :, 0] * 16 + halves[:, :, 1]).tobytes() in program, name
        raw = gguf.quants.quantize(tiny.tensors[name], Q4_0).reshape(len(numbers), -1, 18)
        scales = raw[:, :, :2].copy().view(np.float16).astype(np.float32)
        scales[scales == 0] = 1
        assert scales.tobytes() in program, name
    assert notes[0] == (
        "7 linear layers have the integers and scales of model.gguf (Q4_0): 4-bit weights with a "
        "scale for 32 columns."
    )


@pytest.mark.parametrize(
    ("kind", "build", "options", "expected"),
    [
        # XNNPACK refuses to load a program with scales below 0, which half of a file's blocks have.
        (
            Q4_0,
            xnnpack_recipes.int8_dynamic_act_int4_weight,
            {"group_size": "32"},
            "quantized anew: the recipe gives a scheme whose scales must be above 0.",
        ),
        (
            Q4_0,
            xnnpack_recipes.int4_weight_only,
            {"group_size": "64"},
            "quantized anew: the recipe gives 4-bit weights with a scale a row.",
        ),
        (
            Q8_0,
            xnnpack_recipes.int8_weight_only,
            {},
            "quantized anew: the recipe gives 8-bit weights with a scale a row.",
        ),
        (
            Q8_0,
            xnnpack_recipes.fp32,
            {},
            "dequantized: the recipe gives no quantization by torchao.",
        ),
    ],
)
def test_other_schemes_are_named(
    kind: Any, build: Any, options: dict[str, str], expected: str, spec: Any
) -> None:
    recipe = recipe_of(build, **options)
    _, notes = quantized(spec(kind), recipe)
    # Of 96 columns there are no groups of 64.
    count = 6 if options.get("group_size") == "64" else 7
    assert notes[0].startswith(f"{count} linear layers of model.gguf ({kind.name}) with ")
    assert notes[0].endswith(expected)


def test_scales_above_0_are_kept_beside_quantized_activations(spec: Any, tiny: Any) -> None:
    """The least number of each block is its largest in size, which makes the scale positive."""
    for name, values in tiny.tensors.items():
        if name.split(".")[-2] in _LINEARS:
            blocks = values.reshape(-1, 32)
            blocks[:, 5] = -np.abs(blocks).max(axis=1) - 0.1
    recipe = recipe_of(xnnpack_recipes.int8_dynamic_act_int4_weight, group_size="32")
    weight, notes = quantized(spec(Q4_0), recipe)
    assert notes[0].startswith("7 linear layers have the integers and scales of")
    assert bool((weight.qdata.numpy() == integers(tiny.tensors["blk.0.attn_q.weight"])).all())
    assert weight.activation_quantization is not None
