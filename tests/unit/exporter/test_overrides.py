"""Recipes with other recipes for some layers: who quantizes what, and what cannot be mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etlink import link, share
from etlink.lowered import Lowered, data_of
from etlink.split import split
from etlower import capture, operators, overrides, stages
from etlower.overrides import Override, Owners, mixed
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.backend.utils import get_delegates  # noqa: F401
from executorch.export import ExportRecipe, QuantizationRecipe
from quiet_torch import run

_INT4 = "int8_dynamic_act_int4_weight"


class Block(torch.nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        return torch.relu(self.down(torch.relu(self.up(x))))


class Net(torch.nn.Module):
    """Three blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(Block() for _ in range(3))
        self.head = torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def made(name: str) -> ExportRecipe:
    """One of our XNNPACK recipes."""
    return getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//x:r"), "//x:r"))


def with_overrides(base: str, **patterns: str) -> ExportRecipe:
    """A mixed recipe; keys have `_` for a dot."""
    found = [Override(k.replace("_", "."), f"//x:{v}", made(v)) for k, v in patterns.items()]
    return mixed(made(base), found, "//x:mixed")


def spec() -> ModelSpec:
    """The network, on one row."""
    return ModelSpec({"forward": Method(Net().eval(), (torch.randn(1, 64),))})


def weights(recipe: ExportRecipe) -> dict[str, str]:
    """Type of the weight of each linear layer in the exported program."""
    seen: dict[str, str] = {}

    def exported(programs: Any) -> None:
        graph = programs["forward"].graph
        for node in graph.nodes:
            if "linear" in str(node.target):
                name = operators.module_of(node)
                source = node.args[1]
                seen[name] = "float" if source.op == "placeholder" else str(source.target)

    run(spec(), recipe, stages.Watch(exported=exported))
    return seen


def _kind(target: str) -> str:
    return "float" if target == "float" else "quantized"


@pytest.mark.parametrize(
    "base",
    [
        _INT4,
        pytest.param("int8_dynamic_per_channel", marks=pytest.mark.release),
        "int8_static_per_channel",
    ],
)
@pytest.mark.few(1)
def test_layers_stay_as_they_are(base: str) -> None:
    """A pattern takes a block with all that is in it, or a layer."""
    found = weights(with_overrides(base, layers_0="fp32", head="fp32"))
    kinds = {name: _kind(target) for name, target in found.items()}
    floats = {"layers.0.up", "layers.0.down", "head"}
    assert {name for name, kind in kinds.items() if kind == "float"} == floats
    assert len(kinds) == 7


def test_two_precisions() -> None:
    """Eight bits by PT2E in a model whose other layers have four bits by torchao."""
    found = weights(with_overrides(_INT4, head="int8_dynamic_per_channel"))
    assert "torchao" in found["layers.1.up"]
    assert "quantized_decomposed.dequantize_per_channel" in found["head"]


def test_the_first_pattern_counts() -> None:
    """In the order in which they are written."""
    owners = Owners(
        (Override("layers.1", "//x:a", made("fp32")), Override("layers.*", "", made("fp32")))
    )
    assert [owners.of(n) for n in ("layers.1.up", "layers.2.up", "layers", "head")] == [
        0,
        1,
        -1,
        -1,
    ]


def test_a_pattern_without_a_module() -> None:
    """It names the modules that there are."""
    recipe = with_overrides(_INT4, layer_0="fp32")
    with pytest.raises(BuildError) as raised:
        run(spec(), recipe)
    assert str(raised.value).startswith(
        '//x:mixed: overrides: "layer.0" decides for no module of the model. Its modules: head, '
        "layers, layers.0, layers.0.down"
    )


def test_a_pattern_behind_one_that_takes_all() -> None:
    """It would never be asked."""
    first = Override("*", "//x:a", made("fp32"))
    second = Override("head", "//x:b", made("fp32"))
    recipe = mixed(made(_INT4), [first, second], "//x:mixed")
    with pytest.raises(BuildError, match='"head" decides for no module'):
        run(spec(), recipe)


def test_combined_recipes_check_their_patterns() -> None:
    """And the report lists their layers."""
    parts = [with_overrides("int8_dynamic_per_channel", **{p: "fp32"}) for p in ("head", "tail")]
    recipe = overrides.combined([parts[0], made("fp32")])
    assert [o["layers"] for o in overrides.described(recipe, spec())] == [["head"]]
    wrong = overrides.combined([parts[1], made("fp32")])
    with pytest.raises(BuildError, match='//x:mixed: overrides: "tail" decides for no module'):
        run(spec(), wrong)


def test_what_is_for_a_whole_model() -> None:
    """Training is."""
    trained = ExportRecipe(quantization_recipe=QuantizationRecipe(is_qat=True))
    with pytest.raises(BuildError) as raised:
        mixed(made(_INT4), [Override("head", "//x:qat", trained)], "//x:mixed")
    assert str(raised.value) == (
        '//x:mixed: overrides: "head" (//x:qat) cannot be mixed: its is_qat differs from the '
        "base's, which is for whole models.\nChoose recipes that agree in it."
    )


def test_the_report_lists_layers() -> None:
    """Those with weights, by override."""
    described = overrides.described(with_overrides(_INT4, layers_0="fp32"), spec())
    assert described == [
        {"pattern": "layers.0", "recipe": "//x:fp32", "layers": ["layers.0.down", "layers.0.up"]}
    ]


def linked_folder(recipe: ExportRecipe, folder: Path) -> Lowered:
    """A program as the action EtLower writes it."""
    made_spec = spec()
    names = capture.WeightNames(method.module for method in made_spec.methods.values())
    with names.watching():
        manager = run(made_spec, recipe, stages.Watch(exported=names.keep))
    folder.mkdir()
    program = folder / "program.pte"
    program.write_bytes(manager.buffer)
    config = recipe.executorch_backend_config or ExecutorchBackendConfig()
    hints = capture.hints(manager, names, program, folder, config)
    split(program, folder / "lowered", "//x:net", {}, hints)
    return Lowered(folder / "lowered")


@pytest.mark.release
def test_programs_share_the_layers_that_are_equal(tmp_path: Path) -> None:
    """A foundation serves a program that has one layer in another precision; the rest is named."""
    base = linked_folder(made(_INT4), tmp_path / "base")
    other = linked_folder(with_overrides(_INT4, head="fp32"), tmp_path / "other")
    foundation = share.share([base], tmp_path / "foundation.ptd", "//x:foundation")
    options = link.Options(shared=[("foundation.ptd", foundation)])
    linked = link.link(other, tmp_path / "other.pte", options=options)
    [taken] = linked.shared
    [left] = linked.unshared
    assert left["name"] == "head.weight"
    assert "another dtype (program: float32 [32, 64], 8192 bytes; shared: qbint4" in left["reason"]
    assert taken["bytes"] == sum(data.size for data in data_of(other.index)) - left["bytes"]
