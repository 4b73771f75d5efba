"""Results of `torch.cond` keep their values, and programs that were right keep their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from etbuild import Method, ModelSpec
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from quiet_torch import run
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
