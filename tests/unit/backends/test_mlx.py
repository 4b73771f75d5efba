"""MLX's recipes leave to ExecuTorch whatever upstream's lowering would compute otherwise."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import mlx_guards
import mlx_recipes
import mlx_reproducible
import pytest
import torch
import torch.nn.functional as F
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import operators, stages
from etlower.progress import Progress
from torch import nn

X = torch.randn(2, 3, 4, 6)
PLACES = torch.tensor([0, 2, 1])


class Function(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def lowered(
    function: Callable[..., Any], x: torch.Tensor = X, shapes: Any = None
) -> tuple[set[str], list[Any]]:
    """Operators that ExecuTorch computes, and the graphs of MLX's parts."""
    found: list[Any] = []
    recipe = mlx_recipes.fp32(RecipeContext(Options({}, "//:r"), "//:r"))
    method = Method(Function(function), (x,), dynamic_shapes=shapes, strict=False)
    spec = ModelSpec({"forward": method})
    watch = stages.Watch(lowered=lambda edge: found.append(edge.exported_program("forward")))
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    [program] = found
    names = [operators.name(node) for node in program.graph.nodes]
    left = {name.split(".")[1] for name in names if name}
    modules = [m for _, m in program.graph_module.named_children()]
    return left, [m.original_module.graph for m in modules if hasattr(m, "original_module")]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: (x * 2)[:, PLACES, PLACES], "index"),
        (lambda x: F.conv_transpose2d(x, torch.ones(3, 2, 1, 1), padding=1), "convolution"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], "max_pool2d_with_indices"),
        (lambda x: (x * 2).var(1, correction=1.5), "var"),
        (lambda x: (x * 2).sum(None, True), "sum"),
        (lambda x: x[:, :0].abs(), "abs"),
        (lambda x: (x * 2).sort(descending=True), "topk"),
        (lambda x: (x * 2).copy_(x.amax()), "copy"),
        (lambda x: x.int().copy_(x * 2), "copy"),
        (lambda x: F.avg_pool2d(x[0], 2), "avg_pool2d"),
        # Whole numbers are cut off.
        (lambda x: F.avg_pool2d(x.long(), 2), "avg_pool2d"),
        # Nothing but a constant, and sizes that follow from values.
        (lambda x: (torch.scalar_tensor(3.0), x + 1), "scalar_tensor"),
        (lambda x: (x > 0).nonzero(), "nonzero"),
        (lambda x: F.conv1d(x[0, 0], torch.ones(2, 4, 3)), "convolution"),
        (lambda x: F.linear(x.long(), torch.ones(2, 6, dtype=torch.int64)), "mm"),
        (lambda x: (x > 0).cumsum(1) * 2, "cumsum"),
        (lambda x: (x.sum() * 2).index_select(0, PLACES[:1]) + 1, "index_select"),
        # Upstream takes an index of as many dimensions for one along an axis.
        (lambda x: (x[0, 0] * 2)[PLACES[:2, None]], "index"),
        (lambda x: (x * 2).int().sum(1), "sum"),
        (lambda x: (x * 2) // 0.1, "div"),
        (lambda x: torch.div(x * 2, x.exp(), rounding_mode="floor"), "div"),
        (lambda x: (x * 2).int().prod(1), "prod"),
        (lambda x: torch.stack([x.to(torch.int16), x.to(torch.int16)]), "cat"),
    ],
)
def test_what_stays(function: Callable[..., Any], operator: str) -> None:
    assert operator in lowered(function)[0]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: F.avg_pool2d(x, 2), "avg_pool2d"),
        (lambda x: F.max_pool2d(x, 2), "max_pool2d_with_indices"),
        (lambda x: F.group_norm(x, 3), "native_group_norm"),
        (lambda x: (x * 2).flatten().topk(2)[0], "topk"),
    ],
)
def test_handlers_choose_nothing_by_the_example(
    function: Callable[..., Any], operator: str
) -> None:
    """Upstream's would write its size into the payload, and narrow the input's range."""
    left, _ = lowered(function, shapes=({2: torch.export.Dim("n", min=4, max=9)},))
    assert operator in left


def test_sizes_are_no_numbers_of_values() -> None:
    """Upstream's pass takes a number for the value of that number, and joins the two slices."""
    shapes = ({2: torch.export.Dim("n", min=4, max=20)},)
    _, parts = lowered(lambda x: torch.ops.aten._pad_circular(x, (2, 1)), X[0], shapes)
    copies = [n for part in parts for n in part.nodes if operators.packet(n) == "copy"]
    assert copies and all(node.args[0] is not node.args[1] for node in copies)


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_parts_give_no_sizes(mode: str) -> None:
    shapes = ({3: torch.export.Dim("n", min=4, max=9)},)
    _, parts = lowered(lambda x: F.pad(x, (1, 1, 0, 0), mode=mode), shapes=shapes)
    for part in parts:
        [given] = part.find_nodes(op="output")
        assert all(isinstance(n.meta["val"], torch.Tensor) for n in given.all_input_nodes)


@pytest.mark.parametrize("power", [-0.5, 1])
def test_fractions_of_sizes_stay_outside(power: float) -> None:
    """Upstream fails on the type of such a number, whoever computes it."""
    shapes = ({3: torch.export.Dim("n", min=4, max=9)},)
    left, _ = lowered(lambda x: (x * (0.5 * x.shape[3] ** power)).relu(), shapes=shapes)
    assert "scalar_tensor" in left and "relu" not in left
    assert not any(name.endswith("_") for name in left)


@pytest.mark.parametrize("function", [torch.argmax, lambda x: x.argsort(1), lambda x: x.sort(1)[1]])
def test_places_get_a_sign(function: Callable[..., Any]) -> None:
    handler = mlx_guards._checked(_Builder.handle, lambda _: True)
    graph = torch.export.export(Function(function), (X,)).run_decompositions({}).graph
    [node] = [n for n in graph.nodes if operators.packet(n) in ("argmax", "argsort", "sort")]
    builder = _Builder()
    handler(builder, node)
    [cast] = builder.emitted
    assert type(cast).__name__ == "AsTypeNode" and cast.x == cast.out


class _Builder:
    """A program's builder, as far as handlers of places use it."""

    def __init__(self) -> None:
        self.emitted: list[Any] = []

    def handle(self, node: Any) -> Any:
        count = len(operators.values(node))
        return [*range(count)] if count > 1 else 0

    def slot_to_tid(self, slot: int) -> int:
        return slot

    def emit(self, node: Any) -> None:
        self.emitted.append(node)


def test_repetition_without_a_dimension_is_written_out() -> None:
    """MLX would repeat along the first one."""
    _, parts = lowered(lambda x: (x * 2).repeat_interleave(2))
    assert not [n for p in parts for n in p.nodes if "repeat_interleave" in operators.name(n)]


def test_casts_that_round_stay_in_a_part() -> None:
    """Upstream joins a cast with the one before it, whatever that cuts off."""
    _, [part] = lowered(lambda x: ((x * 3).int().float(), x.half().float()))
    casts = [n.meta["val"].dtype for n in part.nodes if "_to_copy" in operators.name(n)]
    assert {torch.float16, torch.int32} <= set(casts)


def test_parts_get_rows() -> None:
    """Inputs whose channels lie last get them before a part, and outputs behind it."""
    last = X.to(memory_format=torch.channels_last)
    left, [part] = lowered(lambda x: x.tanh() * 2, last)
    assert "_to_dim_order_copy" in left
    assert all(node.meta["val"].is_contiguous() for node in part.find_nodes(op="placeholder"))


def test_numbers_of_several_types_are_several_constants() -> None:
    """Upstream names a constant by its value, and gives all uses the first one's type."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.leaky_relu(x.half(), 0.1), F.leaky_relu(x, 0.1)

    spec = ModelSpec({"forward": Method(Function(both), (X,))})
    recipe = mlx_recipes.fp32(RecipeContext(Options({}, "//:r"), "//:r"))
    builder = importlib.import_module("executorch.backends.mlx.builder.program_builder")
    made: list[torch.Tensor] = []
    inner = builder.MLXProgramBuilder.make_or_get_constant

    def make_or_get_constant(self: Any, name: str, tensor: torch.Tensor) -> Any:
        slot = inner(self, name, tensor)
        made.extend(self.extra_constants.values())
        return slot

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder.MLXProgramBuilder, "make_or_get_constant", make_or_get_constant)
        stages.run(spec, recipe, Progress(), "//:net", etrecord=False)
    assert {value.dtype for value in made} == {torch.float16, torch.float32}


def test_constants_of_one_name_are_one_where_they_are_equal() -> None:
    class Builder:
        def __init__(self) -> None:
            self.extra_constants: dict[str, torch.Tensor] = {}

        def make_or_get_constant(self, name: str, tensor: torch.Tensor) -> str:
            self.extra_constants.setdefault(name, tensor)
            return name

    mlx_guards.tell_constants_apart(Builder)
    builder = Builder()
    weight = torch.arange(9.0).reshape(3, 3)
    several = [weight, weight.T, weight.half(), weight[:1], torch.tensor(torch.nan)]
    names = [builder.make_or_get_constant("weight", each) for each in several]
    assert len(set(names)) == len(several)
    assert [builder.make_or_get_constant("weight", each.clone()) for each in several] == names
    for name, value in zip(names, several, strict=True):
        torch.testing.assert_close(builder.extra_constants[name], value, equal_nan=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("is_outside", [False, True])
def test_a_part_reads_a_constant_by_one_name(is_outside: bool) -> None:
    """ExecuTorch has a copy for each reader: MLX would store one of them, and torch finds one."""

    def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        constant = torch.tensor([2.5, 1.0, 0.5])
        last = torch.div(x, constant, rounding_mode="floor") if is_outside else x - constant
        return x + constant, x * constant, last

    left, [part] = lowered(several, torch.ones(2, 3))
    assert ("div" in left) == is_outside
    constants = [node for node in part.find_nodes(op="placeholder") if "lifted" in node.name]
    assert len(constants) == 1


def test_keys_tell_weights_apart() -> None:
    nets = [nn.Linear(3, 2), nn.Linear(3, 2)]
    programs = [torch.export.export(net, (torch.ones(1, 3),)) for net in (*nets, nets[0])]
    first, second, again = map(mlx_reproducible.prefix, programs)
    assert first == again != second


@pytest.mark.parametrize("shares", [False, True])
def test_keys_and_values_that_repeat_one_tensor(shares: bool) -> None:
    """Upstream counts how often the tensor is read, and fails."""

    def attention(x: torch.Tensor) -> torch.Tensor:
        keys = (x * 2).repeat_interleave(2, dim=1)
        values = keys if shares else (x * 2).repeat_interleave(2, dim=1)
        return F.scaled_dot_product_attention(torch.cat([x, x], 1), keys, values)

    assert lowered(attention)[1]


def test_state_that_is_a_result_stays() -> None:
    class Smooth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last.mul_(0.9).add_(x)
            return self.last.clone()

    found: list[Any] = []
    recipe = mlx_recipes.fp32(RecipeContext(Options({}, "//:r"), "//:r"))
    spec = ModelSpec({"forward": Method(Smooth().eval(), (X[:, :, 0, 0],))})
    watch = stages.Watch(lowered=lambda edge: found.append(edge.exported_program("forward")))
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    [program] = found
    assert set(program.graph_signature.buffers_to_mutate.values()) == {"last"}
