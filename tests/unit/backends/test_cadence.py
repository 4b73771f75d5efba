"""Recipes for Cadence's DSPs: options, and biases of layers that are called often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cadence_recipes
import pytest
import torch
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import stages
from etlower.progress import Progress
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def _context(**options: str) -> RecipeContext:
    return RecipeContext(Options(options, "//:r"), "//:r")


def _lowered(spec: ModelSpec, recipe: Callable[[RecipeContext], Any]) -> Any:
    """The program of a model's method, as Cadence's passes leave it."""
    edges: list[Any] = []
    watch = stages.Watch(lowered=edges.append)
    stages.run(spec, recipe(_context()), Progress(), "//:net", etrecord=False, watch=watch)
    return edges[0].exported_program()


@pytest.mark.parametrize("kind", sorted(cadence_recipes._QUANTIZERS))
def test_quantizers(kind: str) -> None:
    """Each value of the option picks a quantizer of upstream's."""
    recipe = cadence_recipes.int8(_context(quantizer=kind))
    (quantizer,) = recipe.quantization_recipe.quantizers
    assert type(quantizer) is cadence_recipes._QUANTIZERS[kind]


def test_fp32() -> None:
    """Without a quantizer there is no quantization."""
    assert cadence_recipes.fp32(_context(mode="size")).quantization_recipe is None


class Twice(torch.nn.Module):
    """One layer on inputs of very different ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x) * 0.01)


def test_biases_have_the_scale_that_kernels_take() -> None:
    """The scale of the call's input times that of the weight, for each call of a layer."""
    torch.manual_seed(0)
    sample = torch.randn(4, 8)
    net = Twice().eval()
    quantization = cadence_recipes.int8(_context()).quantization_recipe
    graph = torch.export.export(net, (sample,)).module(check_guards=False)
    for change in quantization.pre_prepare_passes:
        graph = change(graph)
    prepared = prepare_pt2e(graph, quantization.quantizers[0])
    prepared(sample)
    quantized = convert_pt2e(prepared)
    layers = [n for n in quantized.graph.nodes if n.target is torch.ops.aten.linear.default]
    assert len(layers) == 2
    for layer in layers:
        # Each operand is dequantized, with its scale.
        given, weight, bias = (operand.args[1] for operand in layer.args)
        assert bias == pytest.approx(given * weight)
    torch.testing.assert_close(quantized(sample), net(sample), atol=0.02, rtol=0.1)


class Parts(torch.nn.Module):
    """Two layers on parts of an input, of which one has larger numbers, or the same."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.factor = torch.tensor([1.0] * 4 + [factor] * 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x[..., :4]) + self.last(x[..., 4:])


@pytest.mark.parametrize("factor", [1, 50])
def test_parts_keep_scales_of_their_own(factor: float) -> None:
    """Upstream's pass quantizes the whole by the scale of one, and cuts off what is beyond it."""
    net = Parts(factor).eval()
    x = torch.tensor([[-1.0, 1, 0.5, 0.2] * 2]) * net.factor
    program = _lowered(ModelSpec({"forward": Method(net, (x,))}), cadence_recipes.int8)
    names = [str(node.target) for node in program.graph.nodes]
    assert not any("requantize" in name for name in names)
    assert sum("cadence.quantize_per_tensor" in name for name in names) == (1 if factor == 1 else 2)


class Pooled(torch.nn.Module):
    """Poolings whose strides are their windows', without saying so, and one that has its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.avg_pool2d(x, (2, 3))
        x = torch.nn.functional.max_pool2d(x, 2)
        return torch.nn.functional.avg_pool2d(x, 2, 1)


def test_poolings_have_strides() -> None:
    """Upstream's pass on layouts fails on those that have none."""
    picture = torch.randn(1, 2, 12, 18)
    graph = torch.export.export(Pooled(), (picture,)).module(check_guards=False)
    for change in cadence_recipes.int8(_context()).quantization_recipe.pre_prepare_passes:
        graph = change(graph)
    poolings = [node for node in graph.graph.nodes if "_pool2d" in str(node.target)]
    assert [list(node.args[2]) for node in poolings] == [[2, 3], [2, 2], [1, 1]]
    torch.testing.assert_close(graph(picture), Pooled()(picture))


class Hidden(torch.nn.Module):
    """A single number, one that a branch chooses, and infinities."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.sum()
        return torch.where(total > 0, total, 1.0), x.masked_fill(x > 0, float("-inf"))


def test_results_keep_shapes_and_infinities() -> None:
    """Upstream's passes give a number a dimension, and the least number for an infinity."""
    spec = ModelSpec({"forward": Method(Hidden(), (torch.randn(2, 3),))})
    graph = _lowered(spec, cadence_recipes.fp32).graph
    [output] = graph.find_nodes(op="output")
    assert [tuple(given.meta["val"].shape) for given in output.args[0]] == [(), (2, 3)]
    filled = [node.args[1] for node in graph.nodes if "full" in str(node.target)]
    assert float("-inf") in filled


class Cache(torch.nn.Module):
    """State that is written to by place, and read through a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 2, 4, 3))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(2, place, x)
        return self.cache.repeat_interleave(2, dim=1) * 2


def test_views_of_state_are_placed_by_the_runtime() -> None:
    """Upstream fails on them: the view is of a tensor that nothing plans."""
    inputs = (torch.randn(1, 2, 1, 3), torch.tensor([1]))
    spec = ModelSpec({"forward": Method(Cache().eval(), inputs)})
    recipe = cadence_recipes.fp32(_context())
    assert stages.run(spec, recipe, Progress(), "//:net", etrecord=False).buffer


class Turned(torch.nn.Module):
    """Permutations that count from the end, and move nothing, or are followed by a mean."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        product = torch.tensordot(x, x, ([-2, -1], [-2, -1]))
        return x.permute(0, -2, -1) + 1, product, x.permute(0, -1, -2).mean((-2, -1))


def test_dimensions_count_from_the_start() -> None:
    """Upstream's pass takes a permutation that moves nothing for one that swaps two dimensions."""
    x = torch.randn(2, 3, 3)
    program = _lowered(ModelSpec({"forward": Method(Turned(), (x,))}), cadence_recipes.fp32)
    for got, want in zip(program.module()(x), Turned()(x), strict=True):
        torch.testing.assert_close(got, want)


class Products(torch.nn.Module):
    """Products of a sequence by a matrix and by a vector, and a layer whose weights are given."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.randn(8, 4) * 0.3)
        self.vector = torch.nn.Parameter(torch.randn(4) * 0.3)

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x @ self.matrix @ self.vector, torch.nn.functional.linear(x, weight)


def test_products_have_equal_batches() -> None:
    """Upstream's kernel takes no others, and no weights that are not stored."""
    given = (torch.randn(2, 5, 8), torch.randn(4, 8))
    spec = ModelSpec({"forward": Method(Products(), given)}, calibration=lambda: iter([given] * 2))
    targets = [str(node.target) for node in _lowered(spec, cadence_recipes.int8).graph.nodes]
    assert sum("quantized_matmul" in target for target in targets) == 3


class Filled(torch.nn.Module):
    """Tensors filled like others whose sizes vary, and as many copies of one."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        twice = torch.cat([x, x, x[:, 1:]], 1)
        joined = x.flatten(1)
        filled = torch.full_like(twice, 2.0), torch.ones_like(joined)
        return (
            torch.zeros_like(x) + x.relu(),
            *filled,
            x[0, 0].repeat(x.shape[1]),
            x.repeat(1, 2, 1),
        )


def test_sizes_that_vary_are_computed() -> None:
    """Upstream's passes copy symbols into the arguments, and its emitter fails on them."""
    net, dims = Filled(), {1: torch.export.Dim("length", min=2, max=12)}
    spec = ModelSpec({"forward": Method(net, (torch.randn(2, 5, 4),), (dims,))})
    program = _lowered(spec, cadence_recipes.fp32)
    given: list[Any] = []
    for node in program.graph.nodes:
        torch.fx.node.map_aggregate((node.args, node.kwargs), given.append)
    assert not any(isinstance(each, torch.SymInt) for each in given)
    for length in (2, 5, 12):
        x = torch.randn(2, length, 4)
        for got, expected in zip(program.module()(x), net(x), strict=True):
            torch.testing.assert_close(got, expected)


class Summed(torch.nn.Module):
    """A sequence times the sum of sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sym_sum((x.shape[1], x.shape[1], x.shape[2]))


def test_sums_of_sizes_that_vary() -> None:
    """Upstream's passes take sums of two only."""
    net, dims = Summed(), {1: torch.export.Dim("length", min=2, max=12)}
    spec = ModelSpec({"forward": Method(net, (torch.randn(2, 5, 4),), (dims,))})
    program = _lowered(spec, cadence_recipes.fp32)
    for length in (2, 5, 12):
        x = torch.randn(2, length, 4)
        torch.testing.assert_close(program.module()(x), net(x))
