"""A folder with the smallest module that has a fault, whose test fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, Options, RecipeContext
from etcli.measure import reproducer
from etlower import expected, operators
from etlower.divergence import Fall
from etlower.eager import inputs_of
from etlower.expected import Case
from etlower.runs import ProgramRun
from faulty import WindowedDetector, made
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult

FALL = Fall("layers.0.attention.softmax", "aten.softmax.int", "net.py:1", 80.0, 1.0, "taps")


def recipe(name: str, is_faulty: bool) -> Any:
    """A recipe; a faulty one computes each softmax along another axis."""
    made_recipe = getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//r"), {}, "//r"))
    if is_faulty:
        made_recipe.lowering_recipe.edge_transform_passes = [lambda name, program: [_other_axis]]
    return made_recipe


def _other_axis(graph: GraphModule) -> PassResult:
    for node in graph.graph.nodes:
        if "softmax" in operators.name(node):
            node.args = (node.args[0], 1, *node.args[2:])
    graph.recompile()
    return PassResult(graph, True)


def lowering(work: Path, name: str = "fp32", is_faulty: bool = True) -> reproducer.Lowering:
    def run(file: Path, cases: Sequence[Case]) -> list[Sequence[Any]]:
        expected.write(work / "cases.safetensors", list(cases))
        return ProgramRun(file, [], None, work / "cases.safetensors", [], work).run()[0]

    return reproducer.Lowering(lambda: recipe(name, is_faulty), run, work, "//m:prog")


def write(folder: Path, given: reproducer.Lowering, fall: Fall = FALL) -> str:
    net, inputs = made(WindowedDetector)
    names = ("//m:net", "@rules_executorch//backends/xnnpack:fp32")
    return reproducer.write(folder, Method(net, inputs), inputs, fall, 10.0, given, names)


@pytest.mark.release
def test_module_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    folder = tmp_path / "bugs" / "softmax"
    assert write(folder, lowering(tmp_path)) == FALL.module
    build = (folder / "BUILD.bazel").read_text()
    assert 'entry_point = "bugs.softmax.model:build"' in build
    assert 'min_sqnr_db = "70"' in build
    assert 'recipe = "@rules_executorch//backends/xnnpack:fp32"' in build
    program = torch.export.load(folder / "module.pt2")
    [array] = np.load(folder / "inputs.npz").values()
    [example] = inputs_of(program)
    assert np.array_equal(example.numpy(), array)
    module = program.module()
    assert lowering(tmp_path).ratio(module, (example,)) < 70
    assert lowering(tmp_path, is_faulty=False).ratio(module, (example,)) > 70


@pytest.mark.release
def test_what_cannot_be_reduced(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="neither layers.0.attention.softmax nor a module around"):
        write(tmp_path / "bug", lowering(tmp_path, is_faulty=False))
    with pytest.raises(BuildError, match="the recipe quantizes layers of an eager model"):
        write(tmp_path / "bug", lowering(tmp_path, "int8_dynamic_act_int4_weight"))
    assert not (tmp_path / "bug").exists()
