"""Nets that go wrong are found: planted ones, of each kind."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import Options, RecipeContext
from executorch.export import ExportRecipe
from runner import emulated

from tests.operators import children, reference, trial
from tests.operators.nets import Net
from tests.operators.outcome import Outcome


def _portable() -> ExportRecipe:
    return ExportRecipe(name="portable")


def _net(operator: str, function: Callable[..., Any], *inputs: torch.Tensor) -> Net:
    return Net(operator, "float32: planted", function, inputs)


def _kinds(
    nets: Sequence[Net], make_recipe: Callable[[], Any], are_equal: bool = True
) -> dict[str, str]:
    attempt = functools.partial(trial.try_together, make_recipe=make_recipe)
    tried = children.outcomes(nets, attempt, lambda net: are_equal)
    return {net.operator: outcome.kind for net, outcome in tried}


X, Y = torch.randn(3, 4), torch.randn(3, 4)


def _wrong(method: str, program: Any) -> Any:
    """A pass that computes the cosine for the sine, as a wrong delegate would."""
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
        node.target = torch.ops.aten.cos.default
    program.graph_module.recompile()
    return program


def _planted() -> ExportRecipe:
    return ExportRecipe(name="planted", aten_transform_passes=[_wrong])


@pytest.mark.parametrize("are_equal", [True, False])
def test_a_wrong_kernel_is_found_among_others(are_equal: bool) -> None:
    nets = [
        _net("add", torch.add, X, Y),
        _net("sin", torch.sin, X),
        _net("mul", torch.mul, X, Y),
    ]
    kinds = _kinds(nets, _planted, are_equal)
    assert kinds == {"add": "equal", "sin": "differs", "mul": "equal"}
    assert set(_kinds(nets, _portable, are_equal).values()) == {"equal"}


@pytest.mark.parametrize(("rules", "kind"), [(True, "equal"), (False, "differs")])
def test_a_rule_that_is_left_out_is_found(rules: bool, kind: str) -> None:
    """XNNPACK takes `addmm` with factors as a plain linear layer, unless it is written out."""

    def make_recipe() -> ExportRecipe:
        recipe = xnnpack_recipes.fp32(RecipeContext(Options({}, "//:r"), "//:r"))
        if not rules:
            recipe.aten_transform_passes = []
        return recipe

    bias, weight = torch.randn(5), torch.randn(4, 5)
    net = _net("addmm", lambda x: torch.addmm(bias, x, weight, beta=0.5, alpha=2), X)
    assert _kinds([net], make_recipe) == {"addmm": kind}


def test_a_kernel_in_the_device_s_place() -> None:
    """A kernel that only an emulator has is compared like another, and refused without it."""
    library = torch.library.Library("planted", "DEF")
    library.define("doubled(Tensor x) -> Tensor")
    library.define("doubled.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    library.impl("doubled", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("doubled.out", lambda x, *, out: out.copy_(x * 2), "CompositeExplicitAutograd")
    nets = [_net("doubled", torch.ops.planted.doubled, X)]
    assert _kinds(nets, _portable) == {"doubled": "build"}
    factors = [2]
    emulated.register_kernel("planted::doubled.out", lambda x: x * factors[0])
    assert _kinds(nets, _portable) == {"doubled": "equal"}
    factors[0] = 3
    assert _kinds(nets, _portable) == {"doubled": "differs"}


def test_a_net_that_ends_the_process_costs_only_itself() -> None:
    def abort(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            os.abort()
        return x

    nets = [_net("add", torch.add, X, Y), _net("abort", abort, X), _net("mul", torch.mul, X, Y)]
    assert _kinds(nets, _portable) == {"add": "equal", "abort": "crash", "mul": "equal"}


def test_what_is_refused_has_its_reason() -> None:
    library = torch.library.Library("absent", "DEF")
    library.define("same(Tensor x) -> Tensor")
    library.define("same.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    library.impl("same", torch.clone, "CompositeExplicitAutograd")
    net = _net("same", torch.ops.absent.same, X)
    [alone] = trial.try_together([net], _portable)
    assert alone == Outcome("build", "no kernel: absent::same.out")
    # Beside another it is found by the graph, and the other has to be tried without it.
    assert trial.try_together([net, _net("add", torch.add, X, Y)], _portable) == [alone, None]


@pytest.mark.parametrize(
    ("got", "own", "said"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, 2.0], [1.0, 2.00001], ""),
        ([1.0, 2.0], [1.0, 2.001], "up to 0.001"),
        ([1.0, float("nan")], [1.0, float("nan")], ""),
        ([1.0, float("nan")], [1.0, 2.0], "infinities or NaN"),
        ([1.0, 2.0], [1.0, float("inf")], "other infinities or NaN"),
        ([1, 2], [1, 3], "1 of 2 differ, by up to 1"),
        ([[1.0]], [1.0], "shape (1, 1) instead of (1,)"),
        ([1], [1.0], "int64 instead of float32"),
    ],
)
def test_differences(got: Any, own: Any, said: str) -> None:
    assert reference.difference([torch.tensor(got)], [torch.tensor(own)], None) == said


@pytest.mark.parametrize(
    ("got", "own", "eager", "said"),
    [
        ([1.0, 2.0], [1.5, 2.0], [1.0, 2.0], ""),
        ([1.0, 2.4], [1.5, 2.0], [1.0, 2.0], ""),
        ([1.0, 4.0], [1.5, 2.0], [1.0, 2.0], "up to 2"),
        ([float("nan"), 2.0], [1.5, 2.0], [1.0, 2.0], "infinities or NaN"),
        ([float("inf"), 2.0], [1.5, 2.0], [float("nan"), 2.0], "infinities or NaN"),
        ([True, False], [True, True], [True, False], ""),
        ([False, False], [True, True], [True, False], "2 of 2 differ, by up to 1"),
    ],
)
def test_differences_of_quantized_graphs(got: Any, own: Any, eager: Any, said: str) -> None:
    """Outputs that err from the eager model no more than the quantized graph are equal."""
    tensors = [[torch.tensor(each)] for each in (got, own, eager)]
    assert reference.difference(tensors[0], tensors[1], None, eager=tensors[2]) == said
