"""A graph is decomposed to the nodes that upstream makes, without running those that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import nets
import pytest
import torch
from etbuild import ModelSpec
from etfast import functional_tracer, path
from etlower import lower
from executorch.exir.debug_handle_utils import get_greatest_ancestor_node_identifier
from lowerings import spec
from torch.export import ExportedProgram, default_decompositions
from torch.fx import GraphModule

lower.make_deterministic()


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    # The first one only saves time here.
    with path.installed(path.units(["composite_decompositions", "aten_ir_make_fx"])) as used:
        assert used.active == ["composite_decompositions", "aten_ir_make_fx"]
        yield


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The graphs that the unit traced instead of upstream."""
    result: list[GraphModule] = []
    trace = functional_tracer.trace

    def watched(*args: Any) -> Any:
        made = trace(*args)
        result.append(made.graph_module)
        return made

    monkeypatch.setattr(functional_tracer, "trace", watched)
    return result


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operators that weren't run."""
    result: list[str] = []
    keep = functional_tracer.Tracing._kept

    def watched(self: Any, node: Any, *rest: Any) -> Any:
        result.append(str(node.target))
        return keep(self, node, *rest)

    monkeypatch.setattr(functional_tracer.Tracing, "_kept", watched)
    return result


def exported(net: ModelSpec) -> ExportedProgram:
    (method,) = net.methods.values()
    program = torch.export.export(
        method.module, method.example_inputs, dynamic_shapes=method.dynamic_shapes, strict=False
    )
    # Without them there is no module that checks inputs, as there is none under ExecuTorch.
    program.example_inputs = None
    return program


def nodes(program: ExportedProgram) -> list[tuple[Any, ...]]:
    """All of a graph that a backend may see."""

    def facts(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.stride(), value.dtype
        return value if isinstance(value, list | tuple) else str(value)

    return [
        (
            node.op,
            node.name,
            str(node.target),
            str(node.args),
            str(node.kwargs),
            torch.utils._pytree.tree_map(facts, node.meta.get("val")),
            str(node.meta.get("tensor_meta")),
            node.meta.get("stack_trace"),
            str(node.meta.get("nn_module_stack")),
        )
        for node in program.graph.nodes
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("net", [nets.diamond, nets.outputs, nets.state, nets.tied, nets.picture])
def test_the_nodes_that_upstream_makes(
    net: Callable[[], ModelSpec], traced: list[GraphModule], kept: list[str]
) -> None:
    torch.manual_seed(0)
    functional = exported(net()).run_decompositions({})
    traced.clear()
    here = functional.run_decompositions(default_decompositions())
    assert len(traced) == 1
    assert kept
    again = here.run_decompositions(default_decompositions())
    stock = _stock(functional)
    assert nodes(here) == nodes(stock)
    assert here.graph_signature == stock.graph_signature
    assert nodes(again) == nodes(_stock(stock))


class Cache(torch.nn.Module):
    """A buffer that a call writes to, and a view of it that one operator takes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 2, 8))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.seen.index_put_((place,), x)
        return torch.bmm(x.permute(1, 0, 2), self.seen.permute(1, 2, 0)).relu()


class CacheTwice(Cache):
    """A view of it that two operators take."""

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.seen.index_put_((place,), x)
        view = self.seen.permute(1, 2, 0)
        return torch.bmm(x.permute(1, 0, 2), view.relu()) + view.sum()


def cache(net: torch.nn.Module) -> ModelSpec:
    return spec(net, torch.randn(1, 2, 8), torch.tensor([2]))


def origins(program: ExportedProgram) -> list[int]:
    """Numbers nodes by their origin in the first graph: debug handles, in payloads."""
    numbers: dict[str, int] = {}
    return [
        numbers.setdefault(get_greatest_ancestor_node_identifier(node), len(numbers))
        for node in program.graph.nodes
        if node.op == "call_function"
    ]


def test_the_first_decomposition_has_upstreams_nodes(
    traced: list[GraphModule], kept: list[str]
) -> None:
    program = exported(cache(Cache()))
    assert any(n.target is torch.ops.aten.index_put_.default for n in program.graph.nodes)
    here = program.run_decompositions({})
    assert len(traced) == 1
    assert "aten.relu.default" in kept
    stock = _stock(program, {})
    assert nodes(here) == nodes(stock)
    assert origins(here) == origins(stock)
    assert here.graph_signature == stock.graph_signature


def test_dropouts_that_are_not_trained(traced: list[GraphModule]) -> None:
    program = exported(nets.dropouts())
    assert any(n.target is torch.ops.aten.dropout.default for n in program.graph.nodes)
    here = program.run_decompositions({})
    assert len(traced) == 1
    stock = _stock(program, {})
    assert nodes(here) == nodes(stock)
    assert origins(here) == origins(stock)
    assert here.graph_signature == stock.graph_signature


def test_other_views_of_a_written_buffer_are_upstreams(traced: list[GraphModule]) -> None:
    exported(cache(CacheTwice())).run_decompositions({})
    assert not traced


def _stock(program: ExportedProgram, table: Any = None) -> ExportedProgram:
    """By upstream's function."""

    def refuse(*_: Any, **__: Any) -> None:
        raise functional_tracer.Unsuitable

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional_tracer, "check", refuse)
        return program.run_decompositions(default_decompositions() if table is None else table)


def test_an_operator_whose_inputs_have_changed_is_run(kept: list[str]) -> None:
    """A pass that gives a node another type."""
    program = exported(nets.diamond()).run_decompositions({})
    kept.clear()
    program.run_decompositions({})
    assert kept.count("aten.tanh.default") == 1
    kept.clear()
    first = next(n for n in program.graph.nodes if n.target is torch.ops.aten.linear.default)
    mode = first.meta["val"].fake_mode
    with mode:
        first.meta["val"] = torch.empty(4, 32, dtype=torch.float64)
    program.run_decompositions({})
    assert "aten.relu.default" not in kept


def test_symbolic_sizes_are_upstreams(traced: list[GraphModule]) -> None:
    """Unless all backends are known to write no names down, as the sizes' nodes count in names."""
    functional = exported(nets.attention()).run_decompositions({})
    functional.run_decompositions(default_decompositions())
    assert not traced
    assert functional_tracer.check(functional.run_decompositions({}).module(), True) is None
    with pytest.raises(functional_tracer.Unsuitable):
        functional_tracer.check(functional.module(), False)


def test_a_branch_is_upstreams(traced: list[GraphModule]) -> None:
    exported(nets.choice()).run_decompositions({}).run_decompositions(default_decompositions())
    assert not any("cond" in str(node.target) for result in traced for node in result.graph.nodes)
