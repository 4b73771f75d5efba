"""Modules that the instructions of a program came from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from etbuild import Method, ModelSpec
from etfast import path
from etlower import stages
from etlower.calls import Calls
from etlower.progress import Progress
from executorch.export import ExportRecipe
from quiet_torch import xnnpack


class Net(torch.nn.Module):
    """A layer that is delegated, one that stays with the kernels, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)])
        self.head = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        for layer in self.layers:
            x = layer(x)
        return self.head(self.head(x)).cumsum(-1)


class Branches(torch.nn.Module):
    """A branch, whose instructions upstream gives no debug handles."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        return torch.cond(x.sum() > 0, lambda y: y * y, lambda y: torch.cumsum(y, 0), (x,)).sin()


class Cache(torch.nn.Module):
    """A buffer that is written in place, as a KV cache is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        self.rows[torch.arange(2)] = x
        return x


class Remembering(torch.nn.Module):
    """Two caches."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values = Cache(), Cache()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        return self.values(self.keys(x.sin())).cos()


def calls(module: torch.nn.Module, recipe: ExportRecipe, lowering: str = "fast") -> dict[str, Any]:
    """Records the calls of a module's only method."""
    torch.manual_seed(0)
    kept = Calls()
    spec = ModelSpec({"forward": Method(module.eval(), (torch.randn(2, 8),))})
    watch = stages.Watch(lowered=kept.keep)
    with path.chosen(lowering):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False, watch=watch)
    return kept.of_program(manager)["forward"]


def operators(nodes: list[tuple[str, str, int]], kind: str) -> list[str]:
    """The modules of a delegate's operators of a kind."""
    return [module for module, operator, _ in nodes if operator.split(".")[1] == kind]


def test_kernels_and_delegates_have_modules() -> None:
    result = calls(Net(), xnnpack("fp32"))
    # A norm, with the mean and the difference that its kernel gets.
    assert list(result["kernels"].values()) == [*["layers.1"] * 3, ""]
    first, last = result["delegates"].values()
    assert operators(first, "linear") == ["layers.0"]
    assert operators(last, "linear") == ["head", "head"]
    assert first[0][2] == 2 * 2 * 8 * 8


@pytest.mark.release
def test_both_paths_record_the_same() -> None:
    result = calls(Net(), xnnpack("int8_static_per_channel"))
    assert result == calls(Net(), xnnpack("int8_static_per_channel"), "stock")


def test_nodes_of_quantization_have_the_module_of_their_layer() -> None:
    """They have none of their own."""
    result = calls(Net(), xnnpack("int8_static_per_channel"))
    nodes = [node for nodes in result["delegates"].values() for node in nodes]
    assert operators(nodes, "linear") == ["layers.0", "head", "head"]
    assert {"layers.0", "head"} <= set(operators(nodes, "quantize_per_tensor"))


def test_branches_have_no_handles() -> None:
    """The instructions behind them keep their numbers."""
    result = calls(Branches(), ExportRecipe(name="portable"))
    assert set(result["kernels"].values()) == {""}
    numbers = sorted(map(int, result["kernels"]))
    assert numbers[-1] - numbers[-2] > 2


def test_writes_in_place_have_modules() -> None:
    """Upstream's pass makes nodes of their own for them."""
    result = calls(Remembering(), ExportRecipe(name="portable"))
    modules = list(result["kernels"].values())
    assert modules[0] == modules[-1] == ""
    assert {"keys", "values"} <= set(modules)
    numbers = sorted(map(int, result["kernels"]))
    assert numbers == list(range(len(numbers)))
