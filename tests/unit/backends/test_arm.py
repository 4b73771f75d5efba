"""Arm's recipes: sizes of constants for the quantizer, and partitions without cycles."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import arm_guards
import arm_partitions
import arm_recipes
import pytest
import torch
import torch.nn.functional as F
from arm_guards import Taken
from etbuild import BuildError, LowerAgain, Method, ModelSpec, Options, RecipeContext
from etlower import operators, stages
from etlower.progress import Progress
from executorch.backends.arm._passes import (
    AccumulateIndexPutPass,
    DecomposeSqrtPass,
    FuseDuplicateUsersPass,
)
from executorch.backends.arm._passes.quant_args import QuantArgs
from executorch.backends.arm.tosa import partitioner
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops
from torch import nn
from torch.fx import Graph, Node


class Lookup(nn.Module):
    """A table that is no parameter, as one of 8 bits, and a norm over its width."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(40, 24))

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        rows = self.table[i + torch.arange(3)]
        return rows * torch.rsqrt((rows * rows).mean(-1, keepdim=True) + 1e-5)


@pytest.mark.parametrize("kind", ["tosa_int8", "tosa_a16w8", "vgf_int8", "ethos_u85_int8"])
@pytest.mark.parametrize("scope", ["full", "linear"])
def test_norms_over_the_width_of_a_table(kind: str, scope: str) -> None:
    """Upstream's passes take the width for a dynamic size, and fail on it."""
    recipe = getattr(arm_recipes, kind)(RecipeContext(Options({"quantize_scope": scope}, "//:r")))
    graph = torch.export.export(Lookup().eval(), (torch.tensor([1]),)).module(check_guards=False)
    quantization = recipe.quantization_recipe
    for change in quantization.pre_prepare_passes:
        graph = change(graph)
    graph = quantization.quantizers[0].transform_for_annotation(graph)
    sizes = [size for n in graph.graph.nodes for size in getattr(n.meta.get("val"), "shape", ())]
    assert sizes
    assert all(isinstance(size, int) for size in sizes)


@pytest.mark.parametrize("kind", ["tosa_int8", "vgf_int8", "ethos_u85_int8"])
def test_dynamic_shapes_are_refused_before_the_quantizer(kind: str) -> None:
    recipe = getattr(arm_recipes, kind)(RecipeContext(Options({}), "//:r"))
    sizes = ({0: torch.export.Dim("rows", min=1, max=8)},)
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),), dynamic_shapes=sizes)
    [refuse, *_] = recipe.quantization_recipe.pre_prepare_passes
    with pytest.raises(BuildError, match="^//:r: a method has dynamic shapes, and TOSA takes"):
        refuse(program.module(check_guards=False))


def test_sizes_that_follow_from_values_are_refused_before_the_quantizer() -> None:
    """Inputs have static sizes; an operator's results, one or several, do not."""
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}), "//:r"))
    [refuse, *_] = recipe.quantization_recipe.pre_prepare_passes

    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.where(x > 0)

    program = torch.export.export(Chosen(), (torch.randn(2, 4),))
    with pytest.raises(BuildError, match=r"calls aten\.\w+.\w+, whose result's size follows from"):
        refuse(program.module(check_guards=False))


@pytest.mark.parametrize("accumulate", [False, True])
def test_sums_by_place_stay(accumulate: bool) -> None:
    """Upstream gathers, adds and scatters: of two values for one place, the sum has one."""

    class Put(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.index_put((torch.tensor([1, 1]),), y, accumulate)

    program = torch.export.export(Put(), (torch.zeros(3, 2), torch.ones(2, 2)))
    [put] = program.graph.find_nodes(op="call_function", target=torch.ops.aten.index_put.default)
    assert arm_guards.Taken().is_node_supported({}, put) != accumulate
    arm_guards.install()
    module = AccumulateIndexPutPass()(program.module(check_guards=False)).graph_module
    [put] = module.graph.find_nodes(op="call_function", target=torch.ops.aten.index_put.default)
    assert put.args[3:] == ((True,) if accumulate else ())


class Places(nn.Module):
    """Maxima, and their places."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = (x * 2).max(1)
        return values + 1, places, (x * 3).min(1)[1]


class Queries(nn.Module):
    """Attention by queries that follow from no input, which are scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.layer = nn.Parameter(torch.randn(1, 5, 8)), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(self.layer(self.queries), x, x)


@pytest.mark.few(1)
@pytest.mark.parametrize("net", [Places(), Queries()])
def test_what_passes_of_the_quantizer_fail_on(net: nn.Module) -> None:
    """Upstream refuses places of maxima, or gives the maxima, and fails on scaled constants."""
    spec = ModelSpec({"forward": Method(net.eval(), (torch.randn(1, 4, 8),))})
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}, "//:r"), "//:r"))
    manager = stages.run(spec, recipe, Progress(), "//:net", etrecord=False)
    [plan] = manager.executorch_program.execution_plan
    left = [operator.name for operator in plan.operators]
    assert ("aten::min" in left) == isinstance(net, Places)


class Scaled(nn.Module):
    """A convolution whose result is multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.factor = nn.Conv2d(3, 4, 1), nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.factor


def test_the_weights_of_the_model_stay() -> None:
    """Upstream writes the product into them, in place: the next method would read it."""
    net, x = Scaled().eval(), torch.randn(1, 3, 5, 5)
    before = net(x)
    spec = ModelSpec({name: Method(net, (x,)) for name in ("first", "second")})
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}, "//:r"), "//:r"))
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False)
    assert torch.equal(net(x), before)


def test_what_a_grid_samples_is_not_cut_off() -> None:
    """Upstream's scale for it ends at 1."""

    class Sampled(nn.Module):
        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return F.grid_sample(x * 2, grid, align_corners=False) + 1

    inputs = torch.full((1, 1, 4, 4), 8.0), torch.zeros(1, 2, 2, 2)
    quantized: dict[str, Any] = {}
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}, "//:r"), "//:r"))
    spec = ModelSpec({"forward": Method(Sampled().eval(), inputs)})
    watch = stages.Watch(quantized=quantized.update)
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    torch.testing.assert_close(
        quantized["forward"](*inputs), torch.full((1, 1, 2, 2), 17.0), atol=0.3, rtol=0
    )


class Function(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "function",
    [
        # Upstream takes the logarithm of a softmax, most of whose steps are zero.
        lambda x: F.log_softmax(x * 30, -1),
        lambda x: F.log_softmax((x * 3).masked_fill(x > x[..., :1], -torch.inf), -1)[..., :1],
        # Its passes fail on these.
        lambda x: F.hardtanh(x * 1, inplace=True),
        lambda x: torch.take_along_dim(x, torch.arange(4).view(1, -1, 1), 1) * 2,
    ],
)
def test_functions_in_8_bits(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    inputs = (torch.linspace(-2, 2, 96).reshape(3, 4, 8).sin(),)
    quantized: dict[str, Any] = {}
    recipe = arm_recipes.tosa_int8(RecipeContext(Options({}, "//:r"), "//:r"))
    spec = ModelSpec({"forward": Method(Function(function).eval(), inputs)})
    watch = stages.Watch(quantized=quantized.update)
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    expected = function(*inputs)
    noise = (quantized["forward"](*inputs) - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / noise) > 20


def test_biases_of_layers_on_zeros_are_not_cut_off() -> None:
    """The scale of zeros is the smallest one, and a bias has 32 bits in steps of it."""
    torch.manual_seed(0)
    net, inputs = nn.GRU(10, 12, batch_first=True).eval(), (torch.randn(2, 1, 10),)
    nn.init.constant_(net.bias_hh_l0, 0.9)
    quantized: dict[str, Any] = {}
    recipe = arm_recipes.tosa_a16w8(RecipeContext(Options({}, "//:r"), "//:r"))
    spec = ModelSpec({"forward": Method(net, inputs)})
    watch = stages.Watch(quantized=quantized.update)
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    expected = net(*inputs)[0]
    noise = (quantized["forward"](*inputs)[0] - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / noise) > 40


def test_equal_calls_with_other_scales_stay_apart() -> None:
    """Upstream joins them, and gives both results the first one's scale."""
    arm_guards.install()
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2)
    calls = [graph.call_function(ops.edge.aten.mul.Tensor, (x, x)) for _ in range(3)]
    for call, scale in zip(calls, (0.1, 0.1, 0.2), strict=True):
        call.meta |= {
            "val": torch.ones(2),
            "output_qparams": {0: QuantArgs(scale, 0, -128, 127, torch.int8)},
        }
    graph.output(tuple(calls))
    signature = FuseDuplicateUsersPass()._build_user_signature
    assert signature(calls[0]) == signature(calls[1]) != signature(calls[2])


class Returned(nn.Module):
    """A state that is a result as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.mul_(0.5).add_(torch.relu(x))
        return self.last.clone()


class Twice(nn.Module):
    """Sums that are equal, one of them in another form and back."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.relu(x + x)
        return whole, torch.relu(x + x).reshape(2, 4).clone().reshape(1, 8)


class Shifted(nn.Module):
    """Equal sums with numbers."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x + 1


class Given(nn.Module):
    """An input that is given back by what moves nothing, beside a sum."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = x.reshape(2, 4).unsqueeze(1).permute(1, 0, 2).expand(1, 2, 4)
        return moved.reshape(1, 8), torch.relu(x)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "net"),
    [
        *(
            (kind, net)
            for kind in ("tosa_fp", "tosa_int8")
            for net in (Returned(), Twice(), Given())
        ),
        ("tosa_fp", Shifted()),
    ],
)
def test_parts_give_no_value_twice(kind: str, net: nn.Module) -> None:
    """VGF's graph has one of two equal results, and none that is given."""
    x = torch.randn(1, 8)
    spec = ModelSpec({"forward": Method(net, (x,))}, calibration=lambda: iter([(x,)]))
    recipe = getattr(arm_recipes, kind)(RecipeContext(Options({}), "//:r"))
    edges: list[Any] = []
    watch = stages.Watch(lowered=edges.append)
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    module = edges[0].exported_program("forward").graph_module
    [part] = [part for _, part in module.named_children() if hasattr(part, "original_module")]
    [output] = part.original_module.graph.find_nodes(op="output")
    assert len(output.args[0]) == 1


def test_what_was_kept_whole_and_is_left() -> None:
    """Kernels take it, or it is decomposed in another attempt."""
    aten = torch.ops.aten
    kept = [aten.grid_sampler_2d.default, aten.pad.default]
    partitioner = SimpleNamespace(ops_to_not_decompose=lambda _: (kept, lambda node: True))
    arm_guards.leave_rest(partitioner)
    _, check = partitioner.ops_to_not_decompose(None)
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(1, 2, 4, 4)
    assert check(graph.call_function(aten.pad.default, (x, [1, 1], "reflect")))
    assert not check(graph.call_function(ops.edge.aten.grid_sampler_2d.default, (x, x, 0, 0, True)))
    # VGF lists it in the edge dialect.
    kept[0] = ops.edge.aten.grid_sampler_2d.default
    assert not check(graph.call_function(ops.edge.aten.grid_sampler_2d.default, (x, x, 0, 0, True)))
    with pytest.raises(LowerAgain):
        check(graph.call_function(ops.edge.aten.pad.default, (x, [1, 1], "reflect")))
    assert not check(graph.call_function(aten.pad.default, (x, [1, 1], "reflect")))


def test_operators_with_shaders_are_checked() -> None:
    """Upstream gives them to VGF's converter again, which fails on them."""

    class Sampled(nn.Module):
        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return nn.functional.grid_sample(x, grid, align_corners=True)

    inputs = torch.randn(1, 2, 4, 4), torch.randn(1, 4, 4, 2)
    program = to_edge(torch.export.export(Sampled(), inputs)).exported_program()
    recipe = arm_recipes.vgf_fp(RecipeContext(Options({}, "//:r"), "//:r"))
    [partitioner] = recipe.lowering_recipe.partitioners
    assert partitioner.partition(program).partition_tags
    [check] = partitioner.additional_checks
    check._refused = SimpleNamespace(has=lambda node: "grid_sampler" in node.name)
    for node in program.graph.nodes:
        node.meta.pop("delegation_tag", None)
    assert not partitioner.partition(program).partition_tags


@pytest.mark.parametrize(
    ("target", "rest", "given", "result", "is_taken"),
    [
        ("log.default", (), 4.0, 5.0, False),
        ("log10.default", (), 4.0, 2.0, False),
        ("rsqrt.default", (), 4.0, 10.0, False),
        # No number near zero has a result that its scale holds.
        ("rsqrt.default", (), 4.0, 1.2, True),
        ("reciprocal.default", (), 4.0, 2.0, True),
        ("reciprocal.default", (), 4.0, 90.0, False),
        ("pow.Tensor_Scalar", (0.5,), 4.0, 2.0, False),
        ("pow.Tensor_Scalar", (2,), 4.0, 16.0, True),
        ("exp.default", (), 4.0, 55.0, True),
        ("elu.default", (0.7,), 4.0, 4.0, True),
        ("sin.default", (), 9.0, 1.0, True),
        ("sin.default", (), 90.0, 1.0, False),
        ("floor.default", (), 4.0, 4.0, False),
        ("round.default", (), 4.0, 4.0, False),
        ("relu.default", (), 4.0, 4.0, True),
    ],
)
def test_tables_of_16_bits(
    target: str, rest: Any, given: float, result: float, is_taken: bool
) -> None:
    """A table has 513 places, and a straight line between two of them.

    Args:
      target: the operator.
      rest: its arguments behind the tensor.
      given: the largest number that it is given.
      result: the largest one of its results.
      is_taken: whether the lines are near enough.
    """
    decomposed = ops.edge.quantized_decomposed
    graph = Graph()
    packet, _, overload = target.partition(".")
    function = getattr(getattr(ops.edge.aten, packet), overload)
    kinds = {"s": torch.int16, "f": torch.float32}

    def call(kind: str, target: Any, *args: Any) -> Node:
        node = graph.call_function(target, args)
        node.meta["val"] = torch.zeros(4, dtype=kinds[kind])
        return node

    scales = [(end / 32767, 0, -32768, 32767, torch.int16) for end in (given, result)]
    x = call("s", torch.neg, graph.placeholder("x"))
    floats = call("f", decomposed.dequantize_per_tensor.default, x, *scales[0])
    called = call("f", function, floats, *rest)
    call("s", decomposed.quantize_per_tensor.default, called, *scales[1])
    assert Taken().is_node_supported({}, called) == is_taken


def test_a_missing_converter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no operator's fault: without it, ExecuTorch would get all of them."""
    monkeypatch.setenv("PATH", "")
    spec = ModelSpec({"forward": Method(nn.Linear(4, 4).eval(), (torch.randn(2, 4),))})
    recipe = arm_recipes.vgf_fp(RecipeContext(Options({}, "//:r"), "//:r"))
    with pytest.raises(BuildError, match="model-converter was not found"):
        stages.run(spec, recipe, Progress(), "//:net", etrecord=False)


def _call(graph: Graph, *given: Node) -> Node:
    return graph.call_function(torch.add, given)


def test_a_residual_connection() -> None:
    """The node between has its input and its user in the same connected part."""
    graph = Graph()
    first = _call(graph, graph.placeholder("x"))
    between = _call(graph, first)
    last = _call(graph, first, between)
    assert not partitioner._validate_partition({first, last})
    assert arm_partitions._connected({first, last}) == [{first, last}], "what upstream leaves"
    assert arm_partitions.parts_of({first, last}) == [{first}, {last}]


def test_floats_stay_in_one_part() -> None:
    """Of integers in and out, parts keep what passes floats among themselves only."""
    graph = Graph()
    kinds = {"q": torch.int8, "f": torch.float32}

    def call(kind: str, *given: Node) -> Node:
        node = _call(graph, *given)
        node.meta["val"] = torch.empty(1, dtype=kinds[kind])
        return node

    quantized = call("q", graph.placeholder("x"))
    first = call("f", quantized)
    middle = call("q", first)
    between = call("q", middle)
    # A float that is read on both sides of what lies between.
    last = call("f", first, between)
    end = call("q", call("f", between))
    nodes = {quantized, first, middle, last, end, *end.all_input_nodes}
    assert not partitioner._validate_partition(nodes)
    parts = arm_partitions.parts_of(nodes)
    assert {quantized} in parts
    assert {end, *end.all_input_nodes} in parts
    assert not any({first, last} & part for part in parts)


def test_what_upstream_splits_well_stays() -> None:
    graph = Graph()
    first = _call(graph, graph.placeholder("x"))
    last = _call(graph, _call(graph, first))
    more = _call(graph, last)
    assert arm_partitions.parts_of({first, last, more}) == [{first}, {last, more}]


@pytest.mark.parametrize("seed", range(50))
def test_any_graph(seed: int) -> None:
    """Parts hold every node once, and none depends on its own output, alone or through others."""
    chance = random.Random(seed)
    graph = Graph()
    nodes: list[Any] = [graph.placeholder("x")]
    for _ in range(30):
        nodes.append(_call(graph, *chance.sample(nodes, min(len(nodes), chance.randint(1, 3)))))
    chosen = {node for node in nodes[1:] if chance.random() < 0.7}
    parts = arm_partitions.parts_of(chosen)
    assert sorted(n.name for part in parts for n in part) == sorted(n.name for n in chosen)
    part_of = {node: number for number, part in enumerate(parts) for node in part}
    fused: dict[Any, set[Any]] = {}
    for node in nodes:
        key = part_of.get(node, node)
        fused.setdefault(key, set()).update(
            part_of.get(given, given) for given in node.all_input_nodes
        )
        fused[key].discard(key)
    while fused:
        ready = [key for key, needs in fused.items() if not needs & fused.keys()]
        assert ready, "the parts depend on each other in a circle"
        for key in ready:
            del fused[key]


@pytest.mark.parametrize(
    ("function", "is_taken"),
    [
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), False),
        (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), True),
        (lambda x: F.interpolate(x, size=(9, 11), mode="bilinear"), True),
        (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True, divisor_override=5), False),
        (lambda x: F.avg_pool2d(x, 3, 2, divisor_override=5), True),
        (lambda x: F.avg_pool2d(x, (1, 3), (2, 1), ceil_mode=True), False),
        (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), True),
        (lambda x: F.max_pool2d(x, 1, 2, ceil_mode=True), False),
        (lambda x: F.max_pool2d(x, 1, 2), True),
    ],
)
def test_resizing_and_pooling(function: Callable[..., torch.Tensor], is_taken: bool) -> None:
    """TOSA gets no factors but ratios of sizes, and no windows that begin behind the picture."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = torch.export.export(Net(), (torch.rand(1, 2, 6, 8),), strict=False).graph
    [node] = [node for node in graph.nodes if node.op == "call_function"]
    assert Taken().is_node_supported({}, node) == is_taken


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 0.1,
        lambda x: torch.div(x, x.exp(), rounding_mode="floor"),
        lambda x: x % 0.1,
        lambda x: torch.remainder(x, x.exp()),
    ],
)
def test_quotients_that_are_rounded_down(function: Callable[..., torch.Tensor]) -> None:
    """Upstream rounds the quotient, which may be a whole number where eager's rest is not zero."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = torch.export.export(Net(), (torch.rand(2, 3),), strict=False).graph
    calls = [node for node in graph.nodes if node.op == "call_function"]
    assert not Taken().is_node_supported({}, calls[-1])


@pytest.mark.parametrize(
    ("function", "in_floats", "in_integers"),
    [
        (lambda x: x.flip(0), False, True),
        (lambda x: torch.slice_scatter(x, x[:, :1] * 2, 1, 1, 2), False, True),
        (lambda x: (x > 1).tril(), False, False),
        (lambda x: torch.div(x, 3, rounding_mode="floor"), False, False),
        (lambda x: x.sum(0), False, False),
        (lambda x: x * 3, True, True),
        (lambda x: x.float().flip(0), True, True),
    ],
)
def test_whole_numbers(
    function: Callable[..., torch.Tensor], in_floats: bool, in_integers: bool
) -> None:
    """TOSA moves whole numbers as floats in its profile of floats; quotients and sums in both."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = torch.export.export(Net(), (torch.ones(2, 3, dtype=torch.int32),), strict=False).graph
    calls = [node for node in graph.nodes if node.op == "call_function"]
    for has_integers, expected in ((False, in_floats), (True, in_integers)):
        taken = Taken(has_integers)
        assert all(taken.is_node_supported({}, node) for node in calls) == expected


@pytest.mark.parametrize("beside", ["float_alpha", "float_scale", "output_qparams"])
def test_calls_are_one_only_if_what_is_beside_them_is_equal(beside: str) -> None:
    """Two ELUs of one value, with factors of their own, had the first one's numbers."""
    arm_guards.install()
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first, second, other = (graph.call_function(torch.ops.aten.elu.default, (x,)) for _ in "abc")
    first.meta[beside] = second.meta[beside] = 1.0
    other.meta[beside] = 2.0
    signature = arm_guards.FuseDuplicateUsersPass()._build_user_signature
    assert signature(first) == signature(second) != signature(other)


def _power_of(target: Any, *given: Any) -> Node:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, 3)
    node = graph.call_function(target, (x, *given))
    node.meta["val"] = torch.ones(2, 3)
    return node


@pytest.mark.parametrize(
    ("exponent", "takes"), [(2, True), (-1, True), (3.0, True), (1.5, False), (-0.5, False)]
)
def test_powers_that_tosa_leaves_undefined(exponent: float, takes: bool) -> None:
    """Of negative numbers by fractions: Arm's reference model refuses them as it runs."""
    power = _power_of(ops.edge.aten.pow.Tensor_Scalar, exponent)
    assert Taken().is_node_supported({}, power) == takes
    norm = _power_of(torch.ops.aten.linalg_vector_norm.default, exponent, [1])
    assert Taken().is_node_supported({}, norm) == (exponent > 0)


def test_roots_are_no_powers() -> None:
    """Those of negative numbers are not a number; TOSA's powers of them are undefined."""
    arm_guards.install()

    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).sqrt()

    edge = to_edge(torch.export.export(Root(), (torch.ones(3),)))
    graph = edge.exported_program().graph_module
    made = DecomposeSqrtPass()(graph).graph_module
    names = {operators.packet(node) for node in made.graph.nodes}
    assert {"rsqrt", "reciprocal"} <= names
    assert not {"pow", "sqrt"} & names
