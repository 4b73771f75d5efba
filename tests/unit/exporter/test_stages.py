"""Our stages: shared layers, dynamic shapes, calibration, recipes' parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etlower import recipe, upstream_passes
from quiet_torch import run
from torch.fx.passes.infra.pass_manager import PassManager


class Net(torch.nn.Module):
    """Two layers, one of them too small for groups of 32."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.big, self.small = torch.nn.Linear(64, 64), torch.nn.Linear(8, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        return self.big(x) + self.small(x[:, :8])


def made(name: str, **options: str) -> Any:
    """One of our XNNPACK recipes."""
    return getattr(xnnpack_recipes, name)(RecipeContext(Options(options, "//x:r"), "//x:r"))


def two(**more: Any) -> ModelSpec:
    """Two methods over one module, one with a dynamic batch."""
    net = Net().eval()
    many = Method(net, (torch.randn(3, 64),), ({0: torch.export.Dim("n", max=8)},))
    return ModelSpec({"many": many, "one": Method(net, (torch.randn(1, 64),))}, **more)


@pytest.mark.parametrize(
    "name", ["int8_dynamic_act_int4_weight", "int8_dynamic_act_int4_weight_per_channel"]
)
@pytest.mark.few(1)
def test_a_shared_layer_is_quantized_once(name: str) -> None:
    """And a layer that is too small is left alone, with a reason."""
    chosen = made(name)
    manager = run(two(), chosen)
    taken = chosen.quantization_recipe.ao_quantization_configs[0].filter_fn
    assert taken.taken == ["big"]
    assert taken.skipped == {"small": "in_features = 8 is not a multiple of 32"}
    assert manager.methods == {"many", "one"}


@pytest.mark.parametrize("name", ["int8_static_per_channel", "int8_static_per_tensor"])
@pytest.mark.few(1)
def test_calibration_by_method(name: str) -> None:
    """PT2E with dynamic shapes; each method's inputs are used."""
    seen = []

    def calibration() -> Any:
        seen.append(True)
        return {"many": [(torch.randn(5, 64),)], "one": [(torch.randn(1, 64),)]}

    run(two(calibration=calibration), made(name))
    assert seen == [True]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "gave no inputs for the method"),
        ([torch.zeros(1, 64)], "is a Tensor, expected a tuple"),
        ([(torch.zeros(1, 3),)], "does not fit the method"),
        ({"other": []}, "names the methods other; the model has: many, one"),
    ],
)
def test_wrong_calibration(inputs: Any, message: str) -> None:
    """Each mistake by name."""
    model, chosen = two(calibration=lambda: inputs), made("int8_static_per_channel")
    with pytest.raises(BuildError, match=message):
        run(model, chosen)


def _fails(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A quantizer's graph that takes no input of the model's."""
    return torch.nn.Conv2d(1, 1, 1)


def _refuses(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    raise BuildError("//x:r: our NPU takes no such layer.")


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            {"post_prepare_passes": [_fails]},
            r'//m:net: the recipe\'s quantizer fails on the method "(many|one)", which takes '
            "calibration input 0: ",
        ),
        ({"pre_prepare_passes": [_refuses]}, "^//x:r: our NPU takes no such layer"),
    ],
)
def test_quantizers_that_fail(passes: Any, message: str) -> None:
    """It is not the calibration input's fault; what a recipe's pass refuses is said as it is."""
    chosen = made("int8_static_per_channel")
    for name, given in passes.items():
        setattr(chosen.quantization_recipe, name, given)
    with pytest.raises(BuildError, match=message):
        run(two(), chosen)


def test_exported_programs(tmp_path: Path) -> None:
    """They take PT2E recipes; torchao ones need eager layers, and say so."""
    program = torch.export.export(Net().eval(), (torch.randn(1, 64),))
    model = ModelSpec({"forward": Method(program, (torch.randn(1, 64),))})
    run(model, made("int8_static_per_channel"))
    with pytest.raises(BuildError, match="quantizes the layers of an eager model"):
        chosen = made("int8_dynamic_act_int4_weight")
        run(model, chosen)


def call(function: Any, **options: str) -> Any:
    """Calls a builder as the exporter does."""
    context = RecipeContext(Options(options, "//x:r"), "//x:r", base="the base")
    return recipe.call(function, context, "//x:r")


def test_parameters_of_builders() -> None:
    """None, the context, all options, options by name and type, the base."""
    assert call(lambda: 1) == 1
    assert call(lambda ctx: ctx.options["a"], a="x") == "x"
    assert call(lambda options: dict(options), a="x") == {"a": "x"}
    assert call(lambda base: base) == "the base"
    assert call(lambda **rest: rest, a="x") == {"a": "x"}
    assert call(lambda ctx, size=32: size, size="64") == 64

    def typed(flag: bool, size: int, name: str = "n") -> tuple:
        return flag, size, name

    assert call(typed, flag="true", size="3") == (True, 3, "n")
    with pytest.raises(BuildError, match='option "size": got "x", expected a whole number'):
        call(typed, flag="true", size="x")


def test_failing_pass() -> None:
    def failing(module: torch.fx.GraphModule) -> Any:
        with torch.fx.traceback.preserve_node_meta():
            torch.fx.Interpreter(module).run(torch.ones(2, 3))

    def fails() -> None:
        program = torch.export.export(Indexed(), (torch.ones(2, 8),))
        PassManager(passes=[failing])(program.module())

    with (
        pytest.raises(BuildError, match=r"//x:m: the pass failing of ExecuTorch [\d.]+ fails") as e,
        upstream_passes.explained("//x:m"),
    ):
        fails()
    assert " on aten.index_select.default, test_stages.py:" in str(e.value)
    assert ": RuntimeError: " in str(e.value)
    with pytest.raises(ValueError, match="other"), upstream_passes.explained("//x:m"):
        raise ValueError("other")


class Indexed(torch.nn.Module):
    """Takes the sixth of eight columns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 8) to (n, 1)."""
        return torch.index_select(x, 1, torch.tensor([5]))
