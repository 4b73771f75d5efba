"""Report on operators that were delegated, and on those that stayed behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from etbuild import Method, ModelSpec
from etlower import delegation, stages
from etlower.reasons import Reasons, plain
from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
)
from executorch.exir.backend.utils import WhyNoPartitionReporter
from executorch.export import ExportRecipe, LoweringRecipe
from quiet_torch import run, xnnpack


class Mixed(torch.nn.Module):
    """Layers around what XNNPACK can't take: a cumulative sum, and an addition of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 32), torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x of (n, 64), step of (1)"""
        return self.last(torch.cumsum(self.first(x), 0) + x[:, :32]), step + 1


class Branches(torch.nn.Module):
    """Two branches, neither of which XNNPACK looks into."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        return torch.cond(x.sum() > 0, lambda y: y * y, lambda y: torch.cumsum(y, 0), (x,))


class Moved(torch.nn.Module):
    """Moves data, and computes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2, 8)"""
        return x.t().reshape(4, 4).clone()


MIXED = Method(Mixed().eval(), (torch.randn(3, 64), torch.ones(1, dtype=torch.int64)))


def seen(recipe: ExportRecipe, **methods: Method) -> dict[str, Any]:
    """The facts on a model, by method."""
    result: dict[str, Any] = {}
    reasons = Reasons()
    watch = stages.Watch(lowered=lambda e: result.update(delegation.of_program(e, reasons, recipe)))
    with reasons.watching():
        run(ModelSpec(methods), recipe, watch)
    return result


def left(method: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Nodes and FLOPs by operator."""
    return {one["operator"]: (one["nodes"], one["flops"]) for one in method["left"]}


def why(method: dict[str, Any], operator: str) -> list[tuple[str, int]]:
    """Reasons with the number of nodes."""
    [result] = [one["why"] for one in method["left"] if one["operator"] == operator]
    return [(one["reason"], one["nodes"]) for one in result]


def test_a_mixed_program() -> None:
    """Shares of XNNPACK's delegates; a reason of its own, and one that the recipe gives."""
    result = seen(xnnpack("fp32"), forward=MIXED)["forward"]
    first, last = 2 * 3 * 64 * 32, 2 * 3 * 32 * 8
    assert [d["backend"] for d in result["delegates"]] == ["XnnpackBackend", "XnnpackBackend"]
    assert sum(d["flops"] for d in result["delegates"]) == first + last + 3 * 32
    assert result["flops"] == first + last + 3 * 32 + 3 * 32
    stayed = left(result)
    assert list(stayed)[0] == "aten.cumsum.default"
    assert stayed["aten.cumsum.default"] == (1, 3 * 32)
    assert stayed["aten.add.Tensor"] == (1, 0)
    delegated = sum(d["nodes"] for d in result["delegates"])
    assert result["nodes"] == delegated + sum(nodes for nodes, _ in stayed.values())
    assert why(result, "aten.cumsum.default") == [(delegation.NOWHERE, 1)]
    # The other addition was delegated: it is about this one's type.
    assert why(result, "aten.add.Tensor") == [("xnnpack: invalid dtype", 1)]
    [add] = [one for one in result["left"] if one["operator"] == "aten.add.Tensor"]
    assert add["why"][0]["example"].startswith("int64 [1]")


def test_facts_are_the_same_each_time() -> None:
    """They are part of what is cached by its contents."""
    one, two = (json.dumps(seen(xnnpack("fp32"), forward=MIXED)) for _ in range(2))
    assert one == two


def test_methods_have_reasons_of_their_own() -> None:
    """Nodes of the same name, in one method as integers, in the other as floats."""

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    methods = {n: Method(Add(), (torch.ones(2, 2, dtype=getattr(torch, n)),)) for n in DTYPES}
    result = seen(xnnpack("fp32"), **methods)
    assert result["float32"]["left"] == []
    assert why(result["int64"], "aten.add.Tensor") == [("xnnpack: invalid dtype", 1)]


DTYPES = ("float32", "int64")


def test_branches_are_looked_into() -> None:
    """Operators in them count like those around them."""
    method = Method(Branches().eval(), (torch.randn(2, 8),))
    result = seen(xnnpack("fp32"), forward=method)["forward"]
    assert result["delegates"] == []
    assert left(result)["aten.cumsum.default"] == left(result)["aten.mul.Tensor"] == (1, 16)
    assert result["flops"] == 16 + 16 + 16 + 1


@pytest.mark.parametrize(("module", "flops"), [(Mixed(), True), (Moved(), False)])
def test_a_recipe_that_delegates_nothing(module: torch.nn.Module, flops: bool) -> None:
    """It has all operators behind it."""
    inputs = MIXED.example_inputs if flops else (torch.randn(2, 8),)
    result = seen(ExportRecipe(name="portable"), forward=Method(module, inputs))["forward"]
    assert result["delegates"] == []
    assert result["nodes"] == sum(one["nodes"] for one in result["left"]) > 0
    assert bool(result["flops"]) == flops
    reasons = {reason["reason"] for one in result["left"] for reason in one["why"]}
    assert reasons == {delegation.NO_PARTITIONER}


def test_vulkan_says_why() -> None:
    """It only logs it; the watch hears it all the same."""
    vulkan = pytest.importorskip("executorch.backends.vulkan.partitioner.vulkan_partitioner")
    lowering = LoweringRecipe(partitioners=[vulkan.VulkanPartitioner({})])
    result = seen(ExportRecipe(lowering_recipe=lowering), forward=MIXED)["forward"]
    [(reason, _)] = why(result, "aten.cumsum.default")
    assert reason == "vulkan: no operator implementation"


def test_the_last_partitioner_has_the_word() -> None:
    """The first one of this recipe takes no floats at all, and says so of everything."""
    parts = [XnnpackDynamicallyQuantizedPartitioner(), XnnpackFloatingPointPartitioner()]
    lowering = LoweringRecipe(partitioners=parts)
    result = seen(ExportRecipe(lowering_recipe=lowering), forward=MIXED)["forward"]
    assert why(result, "aten.add.Tensor") == [("xnnpack: invalid dtype", 1)]


def test_sizes_are_inputs() -> None:
    """A reshape to a size that is computed, which is what XNNPACK doesn't take."""

    class Fold(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + x).reshape(x.shape[0] * 2, 16)

    n = torch.export.Dim("n", min=1, max=8)
    method = Method(Fold(), (torch.randn(3, 32),), ({0: n},))
    result = seen(xnnpack("fp32"), forward=method)["forward"]
    assert list(left(result)) == ["aten.view_copy.default"]
    [reason] = result["left"][0]["why"]
    assert reason["example"] == "float32 [≤8, 32], size ≤16"


def test_a_reporter_says_why() -> None:
    """As Arm's partitioners have it: a class of upstream's that all may use."""
    node = called(torch.ops.aten.sin.default)
    reasons = Reasons()
    with reasons.watching():
        WhyNoPartitionReporter().report_reject(node, "needs\n   a table")
        WhyNoPartitionReporter().report_reject(node, "something else")
    assert reasons.of(node) == {"": "needs a table"}
    assert reasons.of(called(torch.ops.aten.cos.default)) == {}
    # What passes renamed has the reason of its operator, if there is one only.
    again = called(torch.ops.aten.sin.default)
    again.name = "sin_9"
    assert reasons.of(again) == {"": "needs a table"}
    WhyNoPartitionReporter().report_reject(again, "is not heard any more")
    assert reasons.of(again) == {"": "needs a table"}


def called(operator: Callable[..., Any]) -> torch.fx.Node:
    """A call of an operator on a tensor."""
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    given.meta["val"] = torch.zeros(2, 3)
    return graph.call_function(operator, (given,))


def test_reasons_are_plain() -> None:
    """One line, the same in each run, and not endless."""
    assert plain("dtype {torch.int8, torch.bool} at 0x7f01ab.") == "dtype {torch.bool, torch.int8}"
    assert len(plain("x" * 5000)) == 300
