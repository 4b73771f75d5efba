"""Faults are planted in nets; the module that has one is named, and none in nets without."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import divergence, expected, stages
from etlower.divergence import Compare, MethodResult
from etlower.expected import Case
from etlower.progress import Progress
from etlower.runs import ProgramRun
from faulty import (
    Detector,
    Fault,
    Mlp,
    WindowedDetector,
    argument,
    lost,
    made,
    scaled,
    swapped,
    unevenly_padded,
)

INT8 = "int8_static_per_channel"


def doubled(value: Any) -> Any:
    return 2 * value


WINDOWED = WindowedDetector
SOFTMAX = "layers.0.attention.softmax"
FAULTS = [
    Fault("wrong axis", WINDOWED, SOFTMAX, "softmax", argument(1, -2)),
    Fault("lost clamp", Detector, "clamp", "hardtanh", lost),
    Fault("wrong pad", Detector, "deep", "conv2d", unevenly_padded),
    Fault("scale off by 2", WINDOWED, "layers.1.attention", "aten.mul.", argument(1, doubled)),
    Fault("lost bias", WINDOWED, "layers.1.mlp.0", "linear", argument(2, None)),
    Fault("lost bias", Detector, "head", "conv2d", argument(2, None)),
    Fault("wrong epsilon", WINDOWED, "layers.0.norm2", "layer_norm", argument(4, 0.5)),
    Fault("wrong order", Detector, "", "cat", swapped),
    Fault("wrong clamp", Detector, "blocks.1.clamp", "hardtanh", argument(2, 1.0)),
    Fault("lost scale", WINDOWED, "layers.0.attention", "aten.mul.", lost),
    Fault("lost activation", WINDOWED, "layers.0.mlp.1", "gelu", lost),
    Fault("wrong axis", WINDOWED, SOFTMAX, "softmax", argument(1, 1), "lower"),
    Fault("lost clamp", Detector, "blocks.0.clamp", "hardtanh", lost, "lower"),
    Fault("wrong clamp", Detector, "clamp", "hardtanh", argument(2, 1.0), "lower"),
    Fault("wrong order", Detector, "", "cat", swapped, "lower"),
    Fault("wrong epsilon", WINDOWED, "norm", "layer_norm", argument(4, 2.0), "lower"),
    Fault("lost activation", WINDOWED, "layers.1.mlp.1", "gelu", lost, "lower"),
    Fault("lost sigmoid", WINDOWED, "", "sigmoid", lost, "lower"),
    Fault("lost bias", Detector, "deep", "convolution", argument(2, None), "lower"),
    Fault("wrong scale", Mlp, "layers.3", "relu", scaled, "export", INT8),
    Fault("lost bias", Mlp, "layers.2", "linear", argument(2, None), "export", INT8),
    Fault("lost tanh", Mlp, "", "tanh", lost, "lower", INT8),
    Fault("wrong clamp", Detector, "blocks.0.clamp", "hardtanh", argument(2, 1.0), "lower", INT8),
]


HIDDEN = [
    Fault("clamp", Detector, "clamp", "hardtanh", argument(2, 1.0), "lower", is_hidden=True),
    Fault("bias", Detector, "deep", "convolution", argument(2, None), "lower", is_hidden=True),
]


def recipe_of(name: str, fault: Fault | None) -> Any:
    recipe = getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//r"), {}, "//r"))
    return fault.applied(recipe) if fault else recipe


def compared(
    net: Any,
    inputs: Any,
    name: str,
    fault: Fault | None = None,
    change: Callable[[Path], None] = lambda file: None,
) -> MethodResult:
    """Compares a net; `fault` is in its passes, and `change` changes each .pte before it runs."""
    spec = ModelSpec({"forward": Method(net, inputs)})
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)

        def run(file: Path, cases: Sequence[Case]) -> list[Sequence[Any]]:
            change(file)
            expected.write(work / "cases.safetensors", list(cases))
            given = ProgramRun(file, [], None, work / "cases.safetensors", [], work)
            return given.run()[0]

        def make() -> Any:
            return recipe_of(name, fault)

        manager = stages.run(spec, make(), Progress(), "//m:net", etrecord=False)
        with open(work / "net.pte", "wb") as out:
            manager.write_to_file(out)
        outputs = run(work / "net.pte", divergence.cases_of("forward", [inputs]))
        compare = Compare(spec, make, run, work, "//m:net")
        return compare.all({"forward": outputs}, {"forward": [inputs]})["forward"]


@pytest.mark.release
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.name}, {f.stage}, {f.module}")
def test_fault_is_named(fault: Fault) -> None:
    net, inputs = made(fault.net)
    first = compared(net, inputs, fault.recipe, fault).first
    assert first is not None
    column, fall = first
    # A pass on quantized graphs alone plants nothing in the exported one.
    quantized = [] if fault.recipe == "fp32" else ["quantized"]
    assert column in (["program"] if fault.stage == "lower" else ["exported", *quantized])
    assert fall.module == fault.module


@pytest.mark.release
@pytest.mark.parametrize("fault", HIDDEN, ids=lambda f: f.name)
def test_fault_that_taps_hide_is_found_by_cuts(fault: Fault) -> None:
    net, inputs = made(fault.net)
    result = compared(net, inputs, fault.recipe, fault)
    assert result.tapped is not None
    assert result.tapped.sqnr_db is not None and result.tapped.sqnr_db > 100
    fall = result.columns["program"].first
    assert fall is not None
    assert (fall.module, fall.found_by) == (fault.module, "cuts")
    assert result.notes[0].startswith("Taps change the outputs: ")


@pytest.mark.release
@pytest.mark.parametrize("name", ["fp32", INT8, "int8_dynamic_act_int4_weight"])
@pytest.mark.parametrize("kind", [Detector, WindowedDetector, Mlp])
def test_none_is_named_without_a_fault(kind: Any, name: str) -> None:
    net, inputs = made(kind)
    result = compared(net, inputs, name)
    assert result.first is None
    assert not result.notes


@pytest.mark.release
@pytest.mark.parametrize("name", [INT8, "int8_static_per_tensor"])
def test_the_bad_layer_of_an_int8_net_is_named(name: str) -> None:
    """A large weight, which no input reaches, takes the scale of its channel or of its tensor."""
    net, inputs = made(Mlp)
    with torch.no_grad():
        net.layers[0].weight[0] = net.layers[0].bias[0] = 0
        net.layers[2].weight[0, 0] = 500
    first = compared(net, inputs, name).first
    assert first is not None
    assert (first[0], first[1].module) == ("quantized", "layers.2")
