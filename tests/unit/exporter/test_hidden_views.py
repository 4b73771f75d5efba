"""Writes to a view are read by all that shares its memory, as in eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from etbuild import BuildError, Method
from etlower import hidden_views, operators, quantize
from etlower.methods import export_module
from torch import Tensor, nn
from torch.nn import functional as F

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=False),
    "atleast_3d": lambda x: torch.atleast_3d(x)[..., 0],
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x)[0],
    "dropout": lambda x: F.dropout(x, 0.5, training=False)[:, 1:],
    "einsum": lambda x: torch.einsum("ij->ji", x).t(),
    "feature_dropout": lambda x: F.dropout2d(x[None, None], 0.5, training=False)[0, 0],
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0][:, 0],
    "sum_to_size": lambda x: x.sum_to_size(3, 5),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "type_as": lambda x: x.type_as(x),
}


class Written(nn.Module):
    """Writes to a view, and reads both."""

    def __init__(self, view: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.view = nn.Linear(5, 5), view

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        shown = self.view(y)
        shown.relu_()
        return shown * 2, y


def exported(net: nn.Module, strict: bool = True) -> torch.export.ExportedProgram:
    method = Method(net.eval(), (torch.randn(3, 5),))
    return export_module("forward", method.module, method, strict, "//m:net")


@pytest.mark.few(7)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_both_have_what_is_written(view: str, strict: bool) -> None:
    net, x = Written(VIEWS[view]), torch.randn(3, 5)
    program = exported(net, strict)
    for made in (program.run_decompositions({}), program.run_decompositions()):
        for got, exact in zip(made.module()(x), net(x), strict=True):
            torch.testing.assert_close(got, exact)


def test_windows_that_are_written_to() -> None:
    said = r"test_hidden_views\.py:\d+: aten\.unfold\.default gives a view, and the model writes"
    with pytest.raises(BuildError, match=said):
        exported(Written(lambda x: x.unfold(1, 2, 2)))


def test_what_was_written_before_stays_as_it_is() -> None:
    """Such as in classifiers: an activation in place, and a dropout behind it."""
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(5, 2))
    program = exported(net)
    assert hidden_views.write_out("forward", program, "//m:net") is program
    assert {"relu_", "dropout"} <= {operators.packet(node) for node in program.graph.nodes}


def test_constants_of_the_code_are_written_to() -> None:
    """Their values without data lie in one memory with what the program stores; no data does."""

    class Literal(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            places, steps = torch.tensor([0, 2, 4]), torch.tensor([1.0, 2.0, 3.0])
            steps.mul_(2)
            return x[:, places] * steps, steps

    program, x = exported(Literal()), torch.randn(3, 5)
    for _ in range(2):
        for got, exact in zip(program.module()(x), Literal()(x), strict=True):
            torch.testing.assert_close(got, exact)


def test_questions_are_asked_of_what_becomes_functional() -> None:
    """Rules that are for quantized graphs apply to those without writes, too."""

    class Asked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x * 2
            x[:, 0] = 1.0
            return x.masked_fill(x > 0, -torch.inf).softmax(-1).nan_to_num()

    graph = quantize._own(exported(Asked()))
    assert "nan_to_num" not in {operators.packet(node) for node in graph.graph.nodes}
