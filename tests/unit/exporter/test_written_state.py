"""Quantization keeps what a method writes in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etlower import constant_results, operators, written_state
from etlower.quantize import quantize
from torch import Tensor, nn


class Net(nn.Module):
    """A layer, and state of what it gave before."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("state", torch.zeros(shape))


class Total(Net):
    """Two operators in place, the second on the first one's result."""

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.9).add_(self.layer(x))
        return torch.tanh(self.state) + x


class Copied(Net):
    """A copy of what is computed of the buffer."""

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(0.5 * self.state + self.layer(x))
        return torch.tanh(self.state) + x


class Shifted(Net):
    """Views of a buffer are written to."""

    def forward(self, x: Tensor) -> Tensor:
        self.state[:, :-1] = self.state[:, 1:].clone()
        self.state[:, -1].add_(x)
        return self.layer(self.state).sum(1)


NETS = [(Total, (1, 8)), (Copied, (1, 8)), (Shifted, (1, 3, 8))]


def quantized(net: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> Any:
    name = "//backends/xnnpack:int8_static_per_channel"
    recipe = xnnpack_recipes.int8_static_per_channel(RecipeContext(Options({}, name), name))
    method = Method(net.eval(), inputs[0])
    spec = ModelSpec({"forward": method}, calibration=lambda: iter([*inputs, *inputs[:1] * 4]))
    return quantize({"forward": net}, spec, recipe, "//t:net")["forward"]


@pytest.mark.parametrize(("kind", "shape"), NETS, ids=lambda each: getattr(each, "__name__", ""))
def test_calls_in_a_row(kind: type[Net], shape: tuple[int, ...]) -> None:
    inputs = [(torch.randn(1, 8),) for _ in range(8)]
    net = kind(*shape)
    made = quantized(net, inputs)
    assert not net.state.any()
    expected = kind(*shape).eval()
    for _ in range(3):
        got, exact = made(*inputs[0]), expected(*inputs[0])
        assert (got - exact).norm() < 0.05 * exact.norm()


def _assigned(y: Tensor) -> Tensor:
    y[:, 0] = 2.0
    return y


def _added(y: Tensor) -> Tensor:
    y[1:] += y[:1]
    return y


def _in_a_view(y: Tensor) -> Tensor:
    y.view(-1).mul_(3)
    return y


def _in_a_view_of_a_view(y: Tensor) -> Tensor:
    y.t()[2:].clamp_(-0.1, 0.1).neg_()
    return y


def _filled(y: Tensor) -> Tensor:
    parts = torch.zeros_like(y)
    parts[:, 2:5].copy_(y[:, 2:5])
    return parts


def _read_as_a_view(y: Tensor) -> Tensor:
    first = y[0]
    y.add_(1.0)
    return first * y


def _dropped(y: Tensor) -> Tensor:
    nn.functional.dropout(y, 0.5, training=False)[:, 1:].relu_()
    return y


def _given_as_out(y: Tensor) -> Tensor:
    parts = torch.zeros(2, 8)
    torch.mul(y.detach(), 2.0, out=parts[:])
    return parts


WRITES = [
    *(_assigned, _added, _in_a_view, _in_a_view_of_a_view, _filled, _read_as_a_view, _dropped),
    _given_as_out,
]


class Written(nn.Module):
    """A function that writes in place, between two layers."""

    def __init__(self, write: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.behind, self.write = nn.Linear(8, 8), nn.Linear(8, 8), write

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.write(self.before(x)))


@pytest.mark.few(5)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_what_is_written_in_place_is_read(write: Callable[[Tensor], Tensor]) -> None:
    inputs = [(torch.randn(2, 8),) for _ in range(8)]
    net = Written(write)
    exact = net(*inputs[0])
    got = quantized(net, inputs)(*inputs[0])
    assert (got - exact).norm() < 0.05 * exact.norm()


def captured(net: nn.Module) -> Any:
    return torch.export.export(net.eval(), (torch.randn(1, 8),)).module(check_guards=False)


class Function(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda x: F.linear(x, torch.tensor([[1.0, 2, 1, 0]]).repeat(3, 2)), 0),
        (lambda x: x[:, :3] + torch.tensor([0.5, 1, 2]), 0),
        (lambda x: x[:, :3] + torch.tensor([0.5, 1, 2]).mul_(2), 1),
        (lambda x: x[:, :3] + torch.tensor([[0.5, 1, 2]])[0].neg_(), 1),
        (lambda x: (x + 1, torch.tensor([1.0])), 1),
    ],
)
def test_constants_of_code_are_read_as_they_are(
    function: Callable[[Tensor], Any], copies: int
) -> None:
    """QNN's quantizer fails on copies of weights and biases; what is written needs one."""
    inputs = (torch.randn(2, 8),)
    program = torch.export.export(Function(function), inputs)
    graph = program.module(check_guards=False)
    written_state.take_constants(graph, program.graph_signature.lifted_tensor_constants)
    left = [n for n in graph.graph.nodes if operators.packet(n) == "lift_fresh_copy"]
    assert len(left) == copies
    for _ in range(2):
        torch.testing.assert_close(graph(*inputs), function(*inputs))


def test_intermediate_results_stay_as_they_are() -> None:
    class Plain(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).flatten(1).relu_().add_(1) + self.state

    graph = captured(Plain(1, 8))
    before = [node.target for node in graph.graph.nodes]
    assert not written_state.needs_functional(graph)
    written_state.write_by_copies(graph)
    assert [node.target for node in graph.graph.nodes] == before


def test_names_that_passes_gave_a_buffer_become_one() -> None:
    graph = captured(Copied(1, 8))
    names = written_state.buffers(graph)
    assert list(names.values()) == ["state"]
    state = graph.state
    for number, node in enumerate(graph.graph.find_nodes(op="get_attr", target="state")):
        for place, user in enumerate(list(node.users)):
            name = f"_copy_{number}_{place}"
            graph.register_buffer(name, state)
            with graph.graph.inserting_before(user):
                user.replace_input_with(node, graph.graph.get_attr(name))
    graph.graph.eliminate_dead_code()
    del graph.state
    written_state.join(graph, names)
    assert len(graph.graph.find_nodes(op="get_attr", target="state")) == 1
    assert graph.state is state
    expected = Copied(1, 8).eval()
    for _ in range(2):
        x = torch.randn(1, 8)
        torch.testing.assert_close(graph(x), expected(x))


def test_a_buffer_is_written_where_a_pass_reads_it_in_another_type() -> None:
    """Arm's passes read whole numbers in 32 bits, and write to that copy of the state."""

    class Count(Net):
        def forward(self, x: Tensor) -> Tensor:
            self.state.copy_(self.state + 1)
            return x * 1

    net = Count(1)
    net.state = torch.zeros(1, dtype=torch.int64)
    graph = captured(net)
    names = written_state.buffers(graph)
    [read] = graph.graph.find_nodes(op="get_attr", target="state")
    users = list(read.users)
    with graph.graph.inserting_after(read):
        cast = graph.graph.call_function(torch.ops.aten.to.dtype, (read, torch.int32))
    for user in users:
        user.replace_input_with(read, cast)
    written_state.join(graph, names)
    for count in (1, 2):
        graph(torch.randn(1, 8))
        assert graph.state.tolist() == [count]
    assert graph.state.dtype == torch.int64


def test_buffers_of_one_module_have_their_names_again() -> None:
    """Passes give new names to what lies in a module, and leave out the module."""

    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Module()
            self.inner.register_buffer("keys", torch.zeros(1, 8))
            self.inner.register_buffer("values", torch.zeros(1, 8))

        def forward(self, x: Tensor) -> Tensor:
            self.inner.keys.copy_(x)
            self.inner.values.copy_(x * 2)
            return self.inner.keys + self.inner.values

    graph = captured(Cache())
    names = written_state.buffers(graph)
    assert sorted(names.values()) == ["inner.keys", "inner.values"]
    for number, node in enumerate(graph.graph.find_nodes(op="get_attr")):
        value = graph.get_buffer(node.target)
        node.target = f"_tensor_constant{number}"
        graph.register_buffer(node.target, value)
    del graph.inner
    written_state.join(graph, names)
    read = {node.target for node in graph.graph.find_nodes(op="get_attr")}
    assert read == {"inner.keys", "inner.values"}
    x = torch.randn(1, 8)
    torch.testing.assert_close(graph(x), x * 3)


def test_constants_that_others_read_stay_with_executorch() -> None:
    class Places(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.index_select(1, torch.arange(4) * 2) + 1

    program = torch.export.export(Places(), (torch.randn(1, 8),))
    [select] = [node for node in program.graph.nodes if "index_select" in str(node.target)]
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    for node in calls:
        node.meta["delegation_tag"] = "tag1" if node is select else "tag0"
    constant_results.untag(program)
    tags = {str(node.target): node.meta.get("delegation_tag") for node in calls}
    assert tags["aten.mul.Tensor"] is None
    assert tags["aten.arange.default"] is None
    assert tags["aten.index_select.default"] == "tag1"
    assert tags["aten.add.Tensor"] == "tag0"


@pytest.mark.parametrize("check", [None, lambda node: True])
def test_what_follows_from_constants_is_decomposed(check: Callable[..., bool] | None) -> None:
    """A delegate keeps operators whole that ExecuTorch, which computes constants, has not."""

    class Places(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return torch.ones_like(torch.arange(4)), torch.ones_like(x)

    program = torch.export.export(Places(), (torch.randn(1, 8),))
    kept = [torch.ops.aten.ones_like.default]
    partitioner = SimpleNamespace(
        partition=None, ops_to_not_decompose=lambda program: (list(kept), check)
    )
    constant_results.leave(partitioner)
    targets, keeps = partitioner.ops_to_not_decompose(program)
    ones = program.graph.find_nodes(op="call_function", target=kept[0])
    assert targets == kept
    assert [keeps(node) for node in ones] == [False, True]
    kept.clear()
    assert partitioner.ops_to_not_decompose(program) == ([], check)


@pytest.mark.parametrize("also_outside", [False, True])
def test_weights_of_several_parts_stay_in_them(also_outside: bool) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = self.layer(self.layer(x).sort(descending=True)[0])
            return (y, self.layer.weight + 1) if also_outside else (y,)

    program = torch.export.export(Tied(), (torch.randn(1, 8),))
    layers = [node for node in program.graph.nodes if "linear" in str(node.target)]
    weight = layers[0].args[1]
    for node, tag in (layers[0], "tag0"), (layers[1], "tag1"), (weight, "tag1"):
        node.meta["delegation_tag"] = tag
    constant_results.untag(program)
    assert weight.meta["delegation_tag"] == "tag1"


@pytest.mark.parametrize("write", [Tensor.relu_, lambda x: x[:, 1:].add_(1)])
def test_inputs_that_are_written_to(write: Callable[[Tensor], Tensor]) -> None:
    """Else calibration would read what was written, and the program would not write."""

    class Writing(Net):
        def forward(self, x: Tensor) -> Tensor:
            write(x)
            return self.layer(x)

    with pytest.raises(BuildError, match=r'the method "forward" changes the input "x": ExecuTorch'):
        quantized(Writing(1), [(torch.randn(1, 8),)])


def test_views_of_inputs_in_other_shapes_are_no_writes() -> None:
    class Shaped(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.view(8).unsqueeze_(0))

    x = torch.randn(1, 8)
    made, expected = quantized(Shaped(1), [(x,)]), Shaped(1).eval()
    assert (made(x) - expected(x)).norm() < 0.05 * expected(x).norm()
