"""Passes take over results that they would compute again, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from etfast import export_pass, known_results, path
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with path.installed(path.units(["export_pass"])) as used:
        assert used.active == ["export_pass"]
        yield


class Net(torch.nn.Module):
    """A layer, an operator of several results, and a chain."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, z = torch.relu(self.fc(x)).chunk(2, dim=-1)
        return torch.tanh(torch.exp(y) + z)


class Count(ExportPass):
    """A pass that changes nothing and counts what is run."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def call(self, graph_module: GraphModule) -> Any:
        ran = self.ran

        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                ran.append(str(func))
                return func(*args, **(kwargs or {}))

        with Mode():
            return super().call(graph_module)


class Wider(ExportPass):
    """Changes one operator in the middle to one with results of another type."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op == exir_ops.edge.aten.exp.default:
            args = (super().call_operator(op, args, kwargs, meta),)
            op, kwargs = exir_ops.edge.aten._to_copy.default, {"dtype": torch.float64}
        return super().call_operator(op, args, kwargs, meta)


class Other(ExportPass):
    """Changes one operator in the middle to one with results of the same shape and type."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        op = exir_ops.edge.aten.sin.default if op == exir_ops.edge.aten.exp.default else op
        return super().call_operator(op, args, kwargs, meta)


def edge() -> GraphModule:
    """The net in the edge dialect."""
    batch = torch.export.Dim("batch", min=2, max=8)
    program = torch.export.export(Net().eval(), (torch.randn(3, 8),), dynamic_shapes=({0: batch},))
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(program, compile_config=config).exported_program().graph_module


def values(module: GraphModule) -> dict[str, Any]:
    """Fake results by node, with shape and type."""
    result = {}
    for node in module.graph.nodes:
        leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
        result[node.name] = [(str(v.shape), v.dtype) for v in leaves if isinstance(v, torch.Tensor)]
    return result


def test_nothing_is_computed_twice() -> None:
    """The second pass runs no operator, and its graph is that of the first."""
    first = ExportPass()(edge()).graph_module
    count = Count()
    second = count(first).graph_module
    assert count.ran == []
    assert values(second) == values(first)
    assert second.code == first.code


def test_behind_a_change_results_are_computed() -> None:
    """Their types follow the change, as without the fast path."""
    module = ExportPass()(edge()).graph_module
    changed = values(Wider()(module).graph_module)
    with path.installed(()):
        assert changed == values(Wider()(module).graph_module)
    assert any((torch.float64) in (kind for _, kind in result) for result in changed.values())


def test_behind_a_change_of_no_consequence_they_are_not() -> None:
    """A pass that says the same gives way to what was there."""
    module = ExportPass()(edge()).graph_module
    other = Other()(module).graph_module
    count = Count()
    count(other)
    assert count.ran == []


def _result(*args: Any, before: Any = None) -> tuple[Any, tuple[Any, ...]]:
    key = known_results.key_of(torch.ops.aten.add.Tensor, args, {})
    result = torch.ops.aten.add.Tensor(*args)
    return known_results.kept_result(result, before, key, args), key


def test_keys_tell_arguments_apart() -> None:
    """Equal shapes are not the same tensor; 1 is not 1.0 or True."""
    add = torch.ops.aten.add.Tensor
    with FakeTensorMode():
        x, y = torch.empty(2), torch.empty(2)
        keys = [
            known_results.key_of(add, args, {})
            for args in ((x, x), (x, y), (x, 1), (x, 1.0), (x, True))
        ]
        assert len(set(keys)) == len(keys)
        assert known_results.key_of(add, (x, y), {}) == keys[1]
        assert known_results.key_of(add, (x, object()), {}) is None
        with torch.no_grad():
            assert known_results.key_of(add, (x, y), {}) != keys[1]


def test_a_copy_is_another_tensor() -> None:
    """Facts about a fake tensor do not hold for its deep copy."""
    import copy

    with FakeTensorMode() as mode:
        x = torch.empty(2)
        result, key = _result(x, x)
        assert known_results.known_result(result, key, mode)
        assert not known_results.known_result(result, key, FakeTensorMode())
        twin = copy.deepcopy(result)
        assert not known_results.known_result(twin, key, mode)
        assert known_results.key_of(
            torch.ops.aten.neg.default, (twin,), {}
        ) != known_results.key_of(torch.ops.aten.neg.default, (result,), {})


def test_results_that_differ_do_not_give_way() -> None:
    """By shape, type or strides."""
    with FakeTensorMode():
        x = torch.empty(4, 4)
        for before in (torch.empty(4, 5), torch.empty(4, 4).t(), torch.empty(4, 4).double(), None):
            result, key = _result(x, x, before=before)
            assert result is not before
        before = torch.empty(4, 4)
        assert _result(x, x, before=before)[0] is before
        # An argument is not a result.
        assert _result(x, x, before=x)[0] is not x


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (torch.ops.aten.add.Tensor, True),
        (torch.ops.aten.add_.Tensor, False),
        (torch.ops.aten.view.default, False),
        (torch.ops.aten.nonzero.default, False),
        (torch.ops.aten.item.default, False),
    ],
)
def test_operators_that_are_taken_over(function: Any, taken: bool) -> None:
    """Neither those that write or view, nor those whose results depend on data."""
    assert known_results.functional(function) is taken


class Chunks(torch.nn.Module):
    """An operator with a list of results, at which upstream's check of graphs fixes a size."""

    def __init__(self, branches: bool) -> None:
        super().__init__()
        self.branches = branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = torch.cat(x.chunk(2, dim=-1), 0)
        if not self.branches:
            return c * 2
        return torch.cond(c.sum() > 0, lambda c: c + 1, lambda c: c * 2, (c,))


def _program(module: torch.nn.Module) -> bytes:
    rows = torch.export.Dim("rows", min=2, max=9)
    shapes = ({0: rows},)
    program = torch.export.export(module.eval(), (torch.randn(3, 8),), dynamic_shapes=shapes)
    return to_edge(program).to_executorch().buffer


def test_a_size_that_was_fixed() -> None:
    """A node with the symbol isn't taken over: upstream, which makes it again, has the number."""
    fast = _program(Chunks(branches=False))
    with path.installed(()):
        assert fast == _program(Chunks(branches=False))


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_size_that_was_fixed_beside_branches(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused as upstream does, as graphs with control flow are upstream's."""
    if not known:
        monkeypatch.setattr(known_results, "learned", lambda value: 0)
    with pytest.raises(RuntimeError, match="did not preserve symbolic metadata"):
        _program(Chunks(branches=True))


def test_control_flow_is_found() -> None:
    """Every operator of control flow is found; a weight, or a delegate, is none."""
    inputs = (torch.randn(3, 8),)
    for module, expected in ((Chunks(branches=True), True), (Chunks(branches=False), False)):
        program = torch.export.export(module.eval(), inputs)
        assert export_pass.has_control_flow(program.graph_module) is expected
    flat = torch.export.export(Net().eval(), inputs).module()
    assert flat.graph.find_nodes(op="get_attr")
    assert not export_pass.has_control_flow(flat)


def test_sizes_that_depend_on_data_are_kept_where_they_are_the_arguments() -> None:
    """Each tracing gives new names to those that an operator makes."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    with FakeTensorMode(shape_env=env) as mode:
        x = torch.empty(env.create_unbacked_symint())
        result, key = _result(x, x)
        assert known_results.known_result(result, key, mode)
        for size, expected in ((x.shape[0], True), (env.create_unbacked_symint(), False)):
            made = known_results.kept_result(torch.empty(size), None, key, [x])
            assert known_results.known_result(made, key, mode) is expected


def test_what_becomes_known_of_sizes_that_depend_on_data_ends_what_is_known() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    with FakeTensorMode(shape_env=env) as mode:
        size = env.create_unbacked_symint()
        x = torch.empty(size)
        result, key = _result(x, x)
        torch._check(size <= 8)
        again = known_results.key_of(torch.ops.aten.add.Tensor, (x, x), {})
        assert again is not None and again != key
        assert not known_results.known_result(result, again, mode)


class Asking(ExportPass):
    """Asks for the words of the node at hand, as passes do for their messages."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = [self.node_debug_str]

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        self.words.append(self.node_debug_str)
        return super().call_operator(op, args, kwargs, meta)


def test_a_pass_gets_the_words_of_a_node_when_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = edge()
    nodes = [node for node in made.graph.nodes if node.op == "call_function"]
    described = [node.format_node() for node in nodes if "getitem" not in str(node.target)]
    formatted: list[torch.fx.Node] = []
    upstream = torch.fx.Node.format_node

    def watched(node: torch.fx.Node, *args: Any) -> str | None:
        formatted.append(node)
        return upstream(node, *args)

    monkeypatch.setattr(torch.fx.Node, "format_node", watched)
    asking = Asking()
    Count()(made)
    assert formatted == []
    asking(made)
    assert asking.words == [None, *described]
