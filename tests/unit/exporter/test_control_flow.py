"""Values of control flow are those of eager, and programs that were right keep their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import random_nets
import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from quiet_torch import lowered as lowered_methods
from quiet_torch import run, xnnpack
from torch._higher_order_ops.map import map as each_of
from torch._higher_order_ops.scan import scan
from torch.export import Dim


def choose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (y,))


class OverwrittenByTheNext(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = choose(x, x)
        return choose(first, x.tanh()), first


class OperandOfTheNext(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = choose(x, x)
        return torch.cond(x.sum() < 0, lambda a: a.sum(0) + a, lambda a: a.flip(0), (first,))


class Viewed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = choose(x, x)
        return self.layer(result.view(1, -1, 4)), result


class InABranch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def deep(a: torch.Tensor) -> torch.Tensor:
            first = choose(a, a)
            return choose(first, a.cos()) - first

        return torch.cond(x.sum() > 1, deep, lambda a: a.sin(), (x,))


class Safe(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return choose(x, x.exp()).relu()


def lowered(net: torch.nn.Module, x: torch.Tensor, dynamic: bool) -> bytes:
    shapes = ({0: Dim("rows", min=2, max=8)},) if dynamic else None
    spec = ModelSpec({"forward": Method(net, (x,), dynamic_shapes=shapes)})
    return run(spec, ExportRecipe(name="portable")).buffer


NETS = [OverwrittenByTheNext(), OperandOfTheNext(), Viewed(), InABranch(), Safe()]


@pytest.mark.parametrize(
    ("net", "dynamic"),
    [
        *((net, True) for net in NETS),
        (NETS[0], False),
        *(pytest.param(net, False, marks=pytest.mark.release) for net in NETS[1:]),
    ],
)
@pytest.mark.few(1)
def test_results_are_those_of_eager(net: torch.nn.Module, dynamic: bool, tmp_path: Path) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    program = tmp_path / "net.pte"
    program.write_bytes(lowered(net, x, dynamic))
    method = Runtime.get().load_program(program).load_method("forward")
    for sign in (1, -1):
        given = x.abs() * sign
        expected = net(given)
        torch.testing.assert_close(
            tuple(method.execute([given])),
            expected if isinstance(expected, tuple) else (expected,),
        )


def test_safe_results_are_not_copied() -> None:
    x = torch.ones(3, 4)
    with torch.no_grad():
        exported = torch.export.export(Safe(), (x,), strict=False)
    edge = to_edge_transform_and_lower({"forward": exported}, compile_config=EdgeCompileConfig())
    assert lowered(Safe(), x, dynamic=False) == edge.to_executorch().buffer


def add(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return carry + row, carry * row


class OverwrittenByAScan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = choose(x, x)
        return (*scan(add, x[0] * 0.5, first), first)


class OverwrittenByAMap(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = choose(x, x)
        return each_of(lambda row: row.tanh() * 3, x), first


class OverwrittenInAScan(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.cond(row.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (carry, row))
            rows = each_of(lambda a: a * 3, torch.stack([row, carry]))
            return new * 1.0, rows.sum(0) + new

        return scan(step, x[0] * 0.5, x)


class ViewedMap(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = each_of(lambda row: row.tanh() * 3, x)
        return rows.view(-1) + 1, rows


class ViewedCarry(torch.nn.Module):
    """A body's view of what the loop carries, which lies outside of the body's memory."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (carry.view(-1, 2).tanh() + 1).view(4), carry + row

        return scan(step, x[0] * 0.5, x)


class TwoInARow(torch.nn.Module):
    """A partitioner leaves the first one's result behind the second."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = choose(x, x)
        second = torch.cond(x.mean() > 0, lambda a: a * 5, lambda a: a * -5, (x,))
        return first + second, first, second


class LayersInBranches(torch.nn.Module):
    """Operators that XNNPACK's partitioner keeps whole, and a weight of both sides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.act = torch.nn.PReLU()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.layer(x)
        y = torch.cond(
            x.sum() > 0, lambda a: self.act(self.layer(a)), lambda a: self.other(a).relu(), (y,)
        )
        return self.other(y), self.layer.weight


@pytest.mark.parametrize(
    ("net", "recipe"),
    [
        (OverwrittenByAScan(), "portable"),
        (OverwrittenByAMap(), "portable"),
        (OverwrittenInAScan(), "portable"),
        (ViewedMap(), "portable"),
        (ViewedCarry(), "portable"),
        (TwoInARow(), "fp32"),
        (LayersInBranches(), "fp32"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.few(1)
def test_values_that_were_lost(net: torch.nn.Module, recipe: str, tmp_path: Path) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    _check_in_a_row(net, [x, -x, x.flip(0) + 0.1], recipe, tmp_path)


@pytest.mark.release
@pytest.mark.parametrize(
    ("seed", "recipe"),
    [
        (21, "portable"),
        *(
            pytest.param(seed, recipe, marks=pytest.mark.release)
            for seed in range(40)
            for recipe in ("portable", "fp32")
        ),
    ],
)
def test_random_nets(seed: int, recipe: str, tmp_path: Path) -> None:
    net = random_nets.net(seed, tmp_path)
    try:
        torch.export.export(net, (torch.ones(random_nets.SHAPES[3]),), strict=False)
    except Exception as error:
        # torch compares sizes of the branches' results, and cannot prove some equal.
        pytest.skip(f"torch does not export it: {type(error).__name__}")
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(random_nets.SHAPES[3], generator=generator) for _ in range(3)]
    _check_in_a_row(net, inputs, recipe, tmp_path)


def _check_in_a_row(
    net: torch.nn.Module, inputs: list[torch.Tensor], recipe: str, folder: Path
) -> None:
    chosen = ExportRecipe(name="portable") if recipe == "portable" else xnnpack(recipe)
    path = folder / "net.pte"
    path.write_bytes(run(ModelSpec({"forward": Method(net, (inputs[0],))}), chosen).buffer)
    method = Runtime.get().load_program(path).load_method("forward")
    with torch.no_grad():
        # In Python, without compiling the bodies again for each.
        eager = torch.export.export(net, (inputs[0],), strict=False).module()
        for x in inputs:
            torch.testing.assert_close(tuple(method.execute([x])), eager(x), atol=1e-4, rtol=1e-4)


class While(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        begin = (torch.tensor(0), x.tanh())
        return torch.while_loop(lambda n, a: n < 3, lambda n, a: (n + 1, a * 2), begin)[1]


class MapOfTwo(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return each_of(lambda rows: rows[0] + rows[1], (x, x.tanh()))


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (
            While(),
            f"test_control_flow.py:{While.forward.__code__.co_firstlineno + 2}: "
            "ExecuTorch has no instruction for torch.while_loop.",
        ),
        (MapOfTwo(), ": ExecuTorch's map takes one tensor and returns one: got 2 and 1."),
    ],
)
def test_what_has_no_instruction(net: torch.nn.Module, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        lowered_methods({"forward": Method(net, (torch.ones(3, 4),))})
    assert caught.value.what.startswith('//m:net: the method "forward"')
    assert caught.value.what.endswith(message)
    assert "scan" in caught.value.hint
