"""Arm's recipes: results in scales of their own, of 64-bit places, and equal to what is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arm_moves
import arm_recipes
import arm_scales
import pytest
import torch
import torch.nn.functional as F
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import operators, partition_tags, stages
from etlower.progress import Progress
from executorch.backends.arm._passes import PropagateViewCopyPermuteUpPass
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default


def _db(got: torch.Tensor, expected: torch.Tensor) -> float:
    noise = (got - expected).square().sum()
    return float(10 * torch.log10(expected.square().sum() / noise))


@pytest.mark.parametrize(
    ("dtype", "given", "mirrored"),
    [
        (torch.int8, (0.05, -8, -128, 127), (0.05, 7, -128, 127)),
        (torch.int16, (0.05, 0, -32768, 32767), (0.05, 0, -32768, 32767)),
    ],
)
@pytest.mark.parametrize("is_other", [True, False])
def test_negations_have_the_scale_of_what_they_negate(
    dtype: torch.dtype, given: tuple[Any, ...], mirrored: tuple[Any, ...], is_other: bool
) -> None:
    """TOSA's operator changes none."""
    own = (0.3, 3, *given[2:], dtype) if is_other else (*given, dtype)
    graph = Graph()
    steps = graph.placeholder("steps")
    value = graph.call_function(_DEQUANTIZE, (steps, *given, dtype))
    negation = graph.call_function(torch.ops.aten.neg.default, (value,))
    quantized = graph.call_function(_QUANTIZE, (negation, *own))
    graph.output(graph.call_function(_DEQUANTIZE, (quantized, *own)))
    module = arm_scales.keep_scales(GraphModule(nn.Module(), graph))
    x = torch.randint(*given[2:], (100,), dtype=dtype)
    expected = -(x.double() - given[1]) * given[0]
    got = module(x).double()
    assert (got - expected.clamp(got.min(), got.max())).abs().max() <= own[0] / 2 + 1e-3
    [first] = negation.users
    assert first.args[1:] == ((*mirrored, dtype) if is_other else own)


@pytest.mark.parametrize("move", [lambda x: x.movedim(0, 1), lambda x: x.reshape(20, 5)])
def test_moves_have_the_scale_of_what_they_move(move: Callable[[torch.Tensor], Any]) -> None:
    """Nor do its permutations and views change a scale."""
    given, own = (0.05, -8, -128, 127, torch.int8), (0.02, -128, -128, 127, torch.int8)

    class Moved(nn.Module):
        def forward(self, steps: torch.Tensor) -> torch.Tensor:
            moved = move(_DEQUANTIZE(steps, *given))
            return _DEQUANTIZE(_QUANTIZE(moved, *own), *own)

    steps = torch.randint(-8, 90, (10, 10), dtype=torch.int8)
    exported = torch.export.export(Moved(), (steps,), strict=False)
    module = arm_scales.keep_scales(exported.module(check_guards=False))
    scales = [n.args[1:] for n in module.graph.find_nodes(op="call_function", target=_QUANTIZE)]
    assert scales == [given, own]
    torch.testing.assert_close(module(steps), Moved()(steps))


class Places(nn.Module):
    """Functions whose places or classes have 64 bits, some of them given by floats instead."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("rows", torch.tensor([3, 0]))
        self.register_buffer("classes", torch.tensor([1, 2, 0, 3, 5]))
        self.register_buffer("shares", torch.rand(5, 6).softmax(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.layer(x)
        return (
            y.index_fill(0, self.rows, 0.4),
            y.index_copy(0, self.rows, x[:2]),
            torch.take(y, self.rows),
            F.cross_entropy(y, self.classes),
            F.cross_entropy(y, self.shares),
            F.nll_loss(y, self.classes, reduction="none"),
            F.multi_margin_loss(y, self.classes),
        )


def test_places_have_64_bits() -> None:
    """Upstream narrows them, and torch refuses the operator during calibration."""
    torch.manual_seed(0)
    net, inputs = Places().eval(), (torch.randn(5, 6),)
    quantized: dict[str, Any] = {}
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}, "//:r"), "//:r"))
    watch = stages.Watch(quantized=quantized.update)
    spec = ModelSpec({"forward": Method(net, inputs)})
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    with torch.no_grad():
        pairs = zip(quantized["forward"](*inputs), net(*inputs), strict=True)
        assert [n for n, (got, want) in enumerate(pairs) if _db(got, want) < 25] == []


class Same(nn.Module):
    """Results that are equal to the input, by what does not look like it; and others."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        alike = F.max_pool2d(x, 1), F.avg_pool2d(x, 1), F.max_pool2d(F.avg_pool2d(x, 1), 1)
        return (*alike, F.relu(x), F.avg_pool2d(F.relu(x), 1), x.clamp(-1, 1))


def test_results_that_equal_what_is_given() -> None:
    """VGF's converter drops what gives them, and nothing writes the result."""
    program = to_edge(torch.export.export(Same(), (torch.randn(1, 2, 4, 4),))).exported_program()
    recipe = arm_recipes.vgf_fp(RecipeContext(Options({}, "//:r"), "//:r"))
    [partitioner] = recipe.lowering_recipe.partitioners
    tagged = partitioner.partition(program).tagged_exported_program
    tagged.graph.lint()
    [output] = tagged.graph.find_nodes(op="output")
    taken = [operators.packet(n) for n in output.args[0] if partition_tags.of(n) is not None]
    assert sorted(taken) == ["clamp", "relu"]
    assert len(output.args[0]) == 6
    x = torch.randn(1, 2, 4, 4)
    for got, want in zip(tagged.module(check_guards=False)(x), Same()(x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x.unsqueeze(0), torch.tensor(0.5)),
        (lambda x: x.squeeze(), torch.ones(1)),
        (lambda x: x * 0.0, torch.ones(3)),
    ],
)
def test_what_vgf_leaves_out(function: Callable[..., Any], x: torch.Tensor) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    program = to_edge(torch.export.export(Net(), (x,))).exported_program()
    recipe = arm_recipes.vgf_fp(RecipeContext(Options({}, "//:r"), "//:r"))
    [partitioner] = recipe.lowering_recipe.partitioners
    tagged = partitioner.partition(program).tagged_exported_program
    calls = [node for node in tagged.graph.nodes if node.op == "call_function"]
    assert not any(map(partition_tags.of, calls))


def test_permutations_before_a_number() -> None:
    """Upstream permutes the number instead of what is subtracted from it."""
    arm_moves.install()
    number, x = torch.full((1, 1, 1, 1), 0.7), torch.randn(1, 2, 3, 4)
    graph = Graph()
    nodes = graph.placeholder("number"), graph.placeholder("x")
    sub = graph.call_function(ops.edge.aten.sub.Tensor, nodes)
    permuted = graph.call_function(ops.edge.aten.permute_copy.default, (sub, [0, 3, 1, 2]))
    graph.output((permuted,))
    with FakeTensorMode() as mode:
        values = [mode.from_tensor(number), mode.from_tensor(x), torch.empty(x.shape)]
        for node, value in zip((*nodes, sub), values, strict=True):
            node.meta["val"] = value
        permuted.meta["val"] = torch.empty(1, 4, 2, 3)
        module = PropagateViewCopyPermuteUpPass()(GraphModule(nn.Module(), graph)).graph_module
    calls = [operators.packet(node) for node in module.graph.nodes if node.op == "call_function"]
    assert calls == ["permute_copy", "sub"]
    [got] = module(number, x)
    torch.testing.assert_close(got, (number - x).permute(0, 3, 1, 2))
