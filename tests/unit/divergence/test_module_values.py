"""Values of modules: eager calls against nodes of graphs, taps and cuts."""

from __future__ import annotations

import math

import pytest
import torch
from etlower import module_values, taps
from etlower.outputs import leaves

nn = torch.nn


class Shared(nn.Module):
    """Calls a layer twice and once by another name, writes in place, and returns two values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.GELU())
        self.alias = self.fc
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.alias(self.fc(self.relu(self.fc(x)) * 2))
        return self.last(self.seq(x).flip(0)), x


class Counter(nn.Module):
    """Writes into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return self.fc(x) * self.count


class Branches(nn.Module):
    """Calls a layer in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.inside = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        return torch.cond(x.sum() > 0, lambda y: self.inside(y), lambda y: y * 2, (x,))


class TwoOutputs(nn.Module):
    """Returns two values of one shape in another order than it computes them."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (h, c) = self.lstm(x)
        return out[:, -1] + h[0] * c[0]


def exported(net: nn.Module, x: torch.Tensor, strict: bool = False) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return module_values.functional(torch.export.export(net, (x,), strict=strict))


def found(net: nn.Module, x: torch.Tensor, strict: bool = False):  # type: ignore[no-untyped-def]
    program = exported(net, x, strict)
    run = module_values.run_eager(net, (x,))
    outputs, values = module_values.run_graph(program, (x,))
    points, problems = module_values.points(program, values, run)
    return program, run, outputs, values, points, problems


def net_of(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


@pytest.mark.parametrize("strict", [False, True])
def test_each_call_has_its_node(strict: bool) -> None:
    x = torch.randn(2, 4)
    _, run, _, values, points, problems = found(net_of(Shared), x, strict)
    assert not problems
    # Strict export calls a shared layer by either of its names.
    named = [(p.module.replace("alias", "fc"), p.outputs_of) for p in points]
    assert [(m, [n.replace("alias", "fc") for n in names]) for m, names in named] == [
        ("fc", ["fc"]),
        ("relu", ["relu"]),
        ("", []),
        ("fc", ["fc"]),
        ("fc", ["fc", ""]),
        ("seq.0", ["seq.0"]),
        ("seq.1", ["seq.1"]),
        ("seq.2", ["seq.2", "seq"]),
        ("", []),
        ("last", ["last", ""]),
    ]
    for point in points:
        assert torch.equal(values[point.node.name], point.place.of(run))


@pytest.mark.parametrize("kind", [Shared, Counter, TwoOutputs])
def test_equal_values_are_paired(kind: type[nn.Module]) -> None:
    x = torch.randn(2, 3, 4) if kind is TwoOutputs else torch.randn(2, 4)
    net = net_of(kind)
    _, run, outputs, values, points, _ = found(net, x)
    assert points
    for point in points:
        torch.testing.assert_close(values[point.node.name], point.place.of(run))
    for got, expected in zip(outputs, run.outputs, strict=True):
        torch.testing.assert_close(got, expected)


def test_state_stays_as_it_was() -> None:
    net = net_of(Counter)
    found(net, torch.randn(2, 4))
    assert net.count.item() == 0


def test_modules_in_branches_are_left_out() -> None:
    _, _, _, _, points, _ = found(net_of(Branches), torch.ones(2, 4))
    named = {name for point in points for name in point.outputs_of}
    assert "before" in named
    assert "inside" not in named


def test_taps_stand_behind_the_outputs() -> None:
    net, x = net_of(Shared), torch.randn(2, 4)
    program, run, _, values, points, _ = found(net, x)
    nodes = [point.node for point in points]
    tapped, positions = taps.tapped(program, nodes)
    got = leaves(tapped.module()(x))
    assert len(got) == len(run.outputs) + len(nodes) - 2
    for node, position in zip(nodes, positions, strict=True):
        assert torch.equal(got[position], values[node.name])
    for value, expected in zip(got, run.outputs, strict=False):
        assert torch.equal(value, expected)


def test_names_that_python_has() -> None:
    class Named(nn.Module):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            return torch.relu(input) * 2

    x = torch.randn(2, 4)
    program, _, _, values, points, _ = found(Named(), x)
    tapped, [position] = taps.tapped(program, [points[0].node])
    assert torch.equal(leaves(tapped.module()(x))[position], values[points[0].node.name])
    assert leaves(taps.cut(program, [points[0].node]).module()(x))


def test_a_cut_computes_nothing_behind_it() -> None:
    net, x = net_of(Shared), torch.randn(2, 4)
    program, _, _, values, points, _ = found(net, x)
    cut = taps.cut(program, [points[2].node])
    assert torch.equal(leaves(cut.module()(x))[0], values[points[2].node.name])
    assert len([n for n in cut.graph.nodes if n.op == "call_function"]) == 3


def test_level_is_the_least_on_the_way() -> None:
    program, _, _, _, points, _ = found(net_of(Shared), torch.randn(2, 4))
    ratios: dict[torch.fx.Node, float | None] = {points[0].node: 30.0, points[1].node: math.inf}
    levels = module_values.levels(program, ratios, 80.0)
    assert levels[points[0].node] == 80.0
    assert levels[points[1].node] == levels[points[-1].node] == 30.0
