"""OpenVINO's parts: without what it computes wrong, and with inputs and outputs that it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openvino_recipes
import pytest
import torch
from etbuild import Method, ModelSpec, Options, RecipeContext
from etlower import operators, stages
from etlower.progress import Progress
from torch import nn
from torch.nn import functional as F

X, WHOLE, PICTURE = torch.randn(3, 4), torch.arange(12).view(3, 4), torch.randn(2, 3, 6, 6)
ROW, KERNELS = torch.randn(4), torch.randn(3, 1, 3, 3)
TABLE = torch.randn(16, 16)
ROWS, CHANNELS = torch.randn(1, 5, 6, 6), torch.randn(4, 6, 3, 3)
LAST = PICTURE.to(memory_format=torch.channels_last)


class Function(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def lowered(net: nn.Module, *inputs: torch.Tensor, recipe: str = "fp32") -> list[torch.fx.Node]:
    """The calls of a lowered net, after a look at what its parts exchange."""
    found: list[torch.fx.Node] = []

    def keep(edge: Any) -> None:
        found.extend(edge.exported_program("forward").graph.nodes)

    samples = [inputs, tuple(torch.randn_like(x) if x.is_floating_point() else x for x in inputs)]
    spec = ModelSpec({"forward": Method(net.eval(), inputs)}, calibration=lambda: iter(samples))
    made = getattr(openvino_recipes, recipe)(RecipeContext(Options({}, "//:r"), "//:r"))
    watch = stages.Watch(lowered=keep)
    stages.run(spec, made, Progress(), "//:net", etrecord=False, watch=watch)
    for node in found:
        if "executorch_call_delegate" in str(node.target):
            for tensor in [*operators.inputs(node), *operators.values(node)]:
                assert tensor.dim() > 0
                assert tensor.is_contiguous()
    return [node for node in found if node.op == "call_function"]


def left(nodes: list[torch.fx.Node]) -> set[str]:
    """Operators that ExecuTorch computes."""
    return {operators.name(node).split(".")[1] for node in nodes if operators.name(node)}


def _with_joined(x: torch.Tensor, dim: int, *others: torch.Tensor) -> list[torch.Tensor]:
    """A layer of rows of channels, and of these with other ones."""
    rows = [x, torch.cat([*others, x], dim)]
    return [F.conv2d(each.permute(0, 3, 1, 2), CHANNELS) for each in rows]


@pytest.mark.parametrize(
    ("function", "inputs", "operator"),
    [
        (lambda x: x.abs() * 2, (WHOLE - 5,), "abs"),
        (lambda x: x.double().exp().float(), (X,), "exp"),
        (lambda x: x * 3 + 2**40, (WHOLE,), "add"),
        (lambda x: torch.where(x > 3, x, 2**50).amin(-1), (WHOLE,), "amin"),
        (lambda x: x.index_put((WHOLE[:2, 0],), X[:2], accumulate=True) + 1, (X,), "index_put"),
        (lambda x: (x.clone(), x + 1), (X,), "_clone_dim_order"),
        (lambda x: x.sum().bool().any(0), (WHOLE,), "any"),
        (lambda x: torch.fmod(x * 2, 0.1), (X,), "fmod"),
        # Of what is fused it computes the first row only.
        (lambda x: x.sum(1).relu() / 4, (PICTURE,), "div"),
        (lambda x: (x.amax((1, 2)) + 1) // 2.0, (PICTURE,), "div"),
        # Of a norm of narrow rows its kernel ends the process.
        (lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * ROW, (X,), "pow"),
        # It rounds one of the two to bfloat16.
        (lambda x: (x == x.amax(1, True)) * x @ x.mT, (PICTURE,), "eq"),
        (lambda x: (x == x.amax(1, True)) * x @ x.mT, (PICTURE,), "amax"),
        (lambda x: (x[:, :1].mT > x) * x @ x.mT, (PICTURE,), "gt"),
        # It takes the rows of what is joined for channels.
        (lambda x: _with_joined(x.relu(), 1, x), (ROWS,), "permute_copy"),
        (lambda x: _with_joined(x * 2, 1, x, x), (ROWS,), "permute_copy"),
        (lambda x: _with_joined((x * 2)[0, None], 0, x), (ROWS,), "permute_copy"),
        (
            lambda x: [
                F.conv2d(rows.permute(0, 3, 1, 2), CHANNELS)
                for rows in (x.relu(), torch.cat([x, x.relu()], 1))
            ],
            (ROWS,),
            "permute_copy",
        ),
        (lambda x: torch.var_mean(x, 0)[1].view(1, -1) + 1, (PICTURE,), "view_copy"),
        (lambda x: x.mean((0,), True).squeeze(0).view(1, -1) + 1, (PICTURE,), "view_copy"),
        # It counts what lies beyond the padding.
        (lambda x: F.avg_pool2d(x, 4, 3, 1, ceil_mode=True) * 2, (PICTURE,), "avg_pool2d"),
        # It gives what its memory holds.
        (lambda x: F.embedding(x, TABLE) @ TABLE.mT, (WHOLE,), "embedding"),
        (lambda x: TABLE[x] @ TABLE.mT, (WHOLE,), "index"),
        (lambda x: TABLE[:, x[0]].relu() @ X.mT, (WHOLE,), "index"),
        (lambda x: TABLE.index_select(1, x[0]) @ X.mT, (WHOLE,), "index_select"),
        # It fails as it runs.
        (lambda x: x.sum(1).reshape(-1, 1) + 1, (PICTURE,), "view_copy"),
        (lambda x: (x * 2).unsqueeze(-1).mean(1, keepdim=True), (PICTURE,), "unsqueeze_copy"),
        # Its compiler fails on this one, and does not say so before.
        (lambda x: x.permute(0, -2, -1, 1) * 2, (PICTURE,), "permute_copy"),
    ],
)
def test_what_stays_with_executorch(function: Any, inputs: Any, operator: str) -> None:
    nodes = lowered(Function(function), *inputs)
    assert operator in left(nodes)


@pytest.mark.parametrize(
    ("net", "inputs"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (LAST,)),
        (Function(lambda x: x.contiguous(memory_format=torch.channels_last) * 2), (PICTURE,)),
        (Function(lambda x, y: (x * y, (x * y).mean() * 3)), (X, torch.tensor(2.0))),
        (Function(lambda x: F.pad(x, (1, 2), mode="reflect") * 2), (X,)),
    ],
)
def test_what_parts_exchange(net: nn.Module, inputs: Any) -> None:
    copies = {"_clone_dim_order", "_to_dim_order_copy", "view_copy"}
    assert left(lowered(net, *inputs)) <= copies


def test_wide_rows_of_tables_are_taken_by_openvino() -> None:
    table = torch.randn(16, 17)
    nodes = lowered(Function(lambda x: F.embedding(x, table) @ table.mT), WHOLE)
    assert left(nodes) == set()


@pytest.mark.parametrize("settings", [(4, 3, 1), (4, 3, 0, True), (4, 3, 1, True, False)])
def test_averages_over_windows_go_to_openvino(settings: Any) -> None:
    nodes = lowered(Function(lambda x: F.avg_pool2d(x, *settings) * 2), PICTURE)
    assert left(nodes) == set()


def test_what_is_joined_elsewhere_is_moved_by_openvino() -> None:
    nodes = lowered(Function(lambda x: _with_joined(x.relu(), 2, x)), ROWS)
    assert left(nodes) == set()


def test_comparisons_of_other_numbers_go_to_openvino() -> None:
    nodes = lowered(Function(lambda x: (x * 2 < x.amax(1, True)) * x @ x.mT), PICTURE)
    assert left(nodes) == set()


def test_layers_of_8_bits_go_to_openvino() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    assert left(lowered(net, PICTURE, recipe="int8")) == set()


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.amax(1, keepdim=True).transpose(2, 3) * 3, "amax"),
        (lambda x: F.pad((x * 3).mean(3, keepdim=True), (1, 1)), "constant_pad_nd"),
        (lambda x: F.conv2d(x[:, :, 1:2].expand(-1, -1, 4, -1), KERNELS, groups=3), ""),
        # It fails in the first call.
        (
            lambda x: F.conv2d(x[:, :, 1, None].expand(-1, -1, 4, -1), KERNELS, groups=3),
            "select_copy",
        ),
        # It pads steps with the number.
        (lambda x: F.linear(F.pad(x, (0, 0, 1, 1), value=0.6), x[0, 0]), "constant_pad_nd"),
        (lambda x: _with_joined(x[:1].relu(), 1, x[:1]), "permute_copy"),
    ],
)
def test_what_stays_with_executorch_in_8_bits(function: Any, operator: str) -> None:
    found = left(lowered(Function(function), PICTURE, recipe="int8"))
    assert operator in found if operator else found == set()


def test_inputs_that_are_given_twice() -> None:
    """Upstream counts them once, and then misses an input."""
    net = Function(lambda x: torch.where(x > 0, x, x) @ torch.stack([x, x])[0])
    lowered(net, torch.randn(1, 2, 6, 6), recipe="int8")


class JoinedWithItself(nn.Module):
    """A layer of a value that is joined with itself, and another function of it."""

    def __init__(self, places: list[int]) -> None:
        super().__init__()
        self.layer, self.places = nn.Conv2d(3 * len(places), 4, 1), places

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = (x, x.relu())
        joined = torch.cat([values[place] for place in self.places], 1)
        return self.layer(joined), F.leaky_relu(x)


@pytest.mark.parametrize("places", [[0, 0], [0, 1, 0], [0, 0, 1]])
def test_values_that_are_joined_with_themselves(places: list[int]) -> None:
    """Upstream has them share their own scale, and looks for its origin without an end."""
    assert left(lowered(JoinedWithItself(places), PICTURE, recipe="int8")) == set()


class Joined(nn.Module):
    """A product's value, which is joined with one of its results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(6, 6), nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.layer(x))
        return self.last(torch.cat([x, (x @ x.transpose(2, 3)).flip(2)], 3))


def test_joined_values_have_one_mode() -> None:
    """NNCF fails where a product wants one of them symmetric."""
    assert "cat" not in left(lowered(Joined(), PICTURE, recipe="int8_transformer"))


def test_parts_exchange_floats() -> None:
    """A part that reads bytes of another one fails in the first call."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), Function(lambda x: x.max(3)[0] * x.mean()))
    nodes = lowered(net, PICTURE, recipe="int8")
    given = [t for n in nodes if "call_delegate" in str(n.target) for t in operators.values(n)]
    assert {tensor.dtype for tensor in given} <= {torch.float32, torch.int64}


def test_padded_averages_of_8_bits() -> None:
    """The padding is an operator of its own: the average would pad with another number."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardswish(), nn.AvgPool2d(3, 2, 1, ceil_mode=True))
    recipe = openvino_recipes.int8(RecipeContext(Options({}, "//:r"), "//:r"))
    graph = torch.export.export(net.eval(), (PICTURE,)).module(check_guards=False)
    for change in recipe.quantization_recipe.pre_prepare_passes:
        graph = change(graph)
    seen = [node for node in graph.graph.nodes if "avg_pool2d" in str(node.target)]
    assert [node.args[3] for node in seen] == [[0, 0]]
    torch.testing.assert_close(graph(PICTURE), net(PICTURE))


class Branches(nn.Module):
    """Two layers of one value, which are joined with what ExecuTorch resizes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pooled = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)
        self.first, self.second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).relu()
        pooled = self.pooled(x.mean((2, 3), keepdim=True))
        wide = F.interpolate(pooled, size=x.shape[2:], mode="bilinear")
        return torch.cat([self.first(x).relu(), self.second(x).relu(), wide], 1)


def test_parts_give_the_floats_of_a_value_once() -> None:
    """OpenVINO's compiler fails on two results that are one tensor."""
    nodes = lowered(Branches(), PICTURE, recipe="int8")
    first = next(node for node in nodes if "call_delegate" in str(node.target))
    assert len(first.users) == 2


# Of numbers of which half are zero.
_AT_ZERO: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    torch.sqrt,
    lambda x: x**1.5,
    lambda x: (x > 0).float() + (x.flip(1) == 0) * 2.0,
    lambda x: x.sign() + x.ceil() * 2,
    lambda x: ((x + x.flip(1)) * 0.7).sqrt(),
)


@pytest.mark.parametrize("recipe", ["int8", "int8_mixed", "int8_transformer"])
def test_zero_is_a_step_of_8_bits(recipe: str) -> None:
    """OpenVINO computes a number beside it for most scales: roots are NaN, signs those of it."""
    import openvino

    graphs: dict[str, Any] = {}
    x = torch.randn(9, 40) * torch.tensor([0.01, 0.1, 0.37, 0.8, 1, 2.3, 7, 30, 100]).view(9, 1)
    inputs = tuple(row[None] for row in x for _ in _AT_ZERO)
    functions = _AT_ZERO * len(x)
    net = Function(
        lambda *rows: [function(row.relu()) for function, row in zip(functions, rows, strict=True)]
    )
    spec = ModelSpec({"forward": Method(net.eval(), inputs)})
    made = getattr(openvino_recipes, recipe)(RecipeContext(Options({}, "//:r"), "//:r"))
    watch = stages.Watch(quantized=graphs.update, lowered=lambda edge: graphs.update(lowered=edge))
    stages.run(spec, made, Progress(), "//:net", etrecord=False, watch=watch)
    program = graphs["lowered"].exported_program("forward")
    [part] = program.graph.find_nodes(op="get_attr")
    payload = getattr(program.graph_module, part.target).processed_bytes
    got = openvino.Core().import_model(payload, "CPU")([row.numpy() for row in inputs])
    with torch.no_grad():
        expected = graphs["forward"](*inputs)
    for number, want in enumerate(expected):
        torch.testing.assert_close(torch.from_numpy(got[number]), want, rtol=0.02, atol=1e-3)
