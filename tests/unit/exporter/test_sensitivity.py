"""Sensitivities of layers: against real programs, with texts, and what cannot be measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etexport import layers, sensitivity, stages
from etexport.exported import eager_outputs
from etexport.outputs import leaves, sqnr_db
from etexport.overrides import Override, mixed
from etexport.progress import Progress
from etexport.replay import Replay, Sample
from etexport.sensitivity import Choice, Data
from etlink import runtime
from executorch.export import ExportRecipe

INT4 = "int8_dynamic_act_int4_weight"
INT8 = "int8_static_per_channel"


class Net(torch.nn.Module):
    """Layers of other sizes of weights, so that each one costs another amount."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict(
                {"up": torch.nn.Linear(64, 64), "down": torch.nn.Linear(64, 64)}
            )
            for _ in range(6)
        )
        self.head = torch.nn.Linear(64, 32)
        with torch.no_grad():
            for number, block in enumerate(self.layers):
                block["up"].weight[:, 0] *= 2 + 7 * (number * 5 % 6)
                block["down"].weight *= 0.3 + 0.4 * (number * 4 % 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        for block in self.layers:
            x = x + block["down"](torch.relu_(block["up"](x)))
        return self.head(x)


def made(name: str) -> ExportRecipe:
    """One of our XNNPACK recipes."""
    return getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//x:r"), "//x:r"))


def spec() -> ModelSpec:
    """The network, on a few rows."""
    net = Net().eval()
    return ModelSpec({"forward": Method(net, (torch.randn(8, 64),))})


def data(of: ModelSpec) -> Data:
    """Its example input."""
    return Data([Sample("forward", of.methods["forward"].example_inputs)])


def measured(*names: str) -> dict[str, Any]:
    """The network's sensitivities to recipes."""
    model = spec()
    choices = [Choice(f"//x:{name}", made(name)) for name in names]
    return sensitivity.measure(model, choices, data(model), "//x:net")


def ratio_of_program(layer: str, recipe: str, folder: Path) -> float:
    """The ratio of a real program in which only one layer is quantized."""
    model = spec()
    override = Override(layer, f"//x:{recipe}", made(recipe))
    manager = stages.run(
        model, mixed(made("fp32"), [override], "//x:mixed"), Progress(), "//x:net", etrecord=False
    )
    file = folder / f"{layer}.pte"
    file.write_bytes(manager.buffer)
    inputs = model.methods["forward"].example_inputs
    (got,) = runtime.call(file, None, "forward", leaves(inputs))
    (expected,) = eager_outputs(model.methods["forward"].module, inputs)
    return sqnr_db(got, expected)


@pytest.mark.parametrize("recipe", [INT4, INT8])
def test_the_ranking_is_that_of_real_programs(recipe: str, tmp_path: Path) -> None:
    """Of 13 layers, by brute force: each one quantized alone, lowered, and run."""
    rows = {row["names"][0]: row["recipes"][0] for row in measured(recipe)["layers"]}
    ours = {name: row["only"]["sqnr_db"] for name, row in rows.items()}
    real = {name: ratio_of_program(name, recipe, tmp_path) for name in ours}
    assert len(ours) == 13
    for name, ratio in ours.items():
        assert ratio == pytest.approx(real[name], abs=0.5), name
    apart = [
        (one, other)
        for one in ours
        for other in ours
        if real[one] > real[other] + 0.5
    ]
    assert len(apart) > 60
    assert all(ours[one] > ours[other] for one, other in apart)


def test_runs_that_begin_at_a_layer_give_the_same() -> None:
    """As whole runs, bit by bit, whatever layer is replaced."""
    modules = layers.copies(spec(), "//x:net")
    replay = Replay(modules, data(spec()).samples)
    recording = replay.record()
    for layer in layers.find(modules):
        layer.variants.append(torch.nn.Linear(64, layer.module.out_features))
        layer.put(0)
        again = replay.run(recording, [layer.module])
        assert torch.equal(again[0][0], replay.record().outputs[0][0]), layer.name
        layer.put(None)
    assert torch.equal(replay.record().outputs[0][0], recording.outputs[0][0])


def test_calls_before_the_layer_are_not_repeated() -> None:
    """The last layer costs one call, and the first all."""
    modules = layers.copies(spec(), "//x:net")
    replay = Replay(modules, data(spec()).samples)
    recording = replay.record()
    calls: list[str] = []
    for name, module in modules["forward"].named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
    replay.run(recording, [modules["forward"].head])
    assert calls == ["head", ""]
