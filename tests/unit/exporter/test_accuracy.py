"""Signal-to-noise of quantized models, and that measuring it changes nothing."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import Method, ModelSpec
from etlower import accuracy, stages
from etlower.eager import eager_outputs
from etlower.unloaded_model import unload
from executorch.export import ExportRecipe
from quiet_torch import run, xnnpack


class Net(torch.nn.Module):
    """A layer with a state; the second output is one that only static recipes quantize."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(64, 64)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x of (n, 64)"""
        self.steps.add_(1)
        return self.layer(x), self.steps + 1


def spec() -> ModelSpec:
    more = [(torch.randn(1, 64),), (torch.randn(1, 64),)]
    return ModelSpec({"forward": Method(Net().eval(), (torch.randn(1, 64),), test_inputs=more)})


def measured(recipe: ExportRecipe, model: ModelSpec, measure: bool = True) -> tuple[Any, bytes]:
    """Returns what is said of the accuracy, and the program."""
    result: dict[str, Any] = {}

    def quantized(modules: Mapping[str, Any]) -> None:
        before = [states(m) for m in (*modules.values(), model.methods["forward"].module)]
        result.update(accuracy.measure(model, modules) if measure else {})
        assert before == [states(m) for m in (*modules.values(), model.methods["forward"].module)]

    watch = stages.Watch(quantized=quantized)
    manager = run(model, recipe, watch)
    return result, manager.buffer


def states(module: torch.nn.Module) -> list[float]:
    """Returns what a module has counted."""
    return [float(value) for name, value in module.named_buffers() if name.endswith("steps")]


RECIPES = ("int8_dynamic_act_int4_weight", "int8_static_per_channel", "int8_dynamic_per_channel")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", RECIPES)
def test_each_output_has_a_ratio(name: str) -> None:
    """torchao's and PT2E's, on the example inputs."""
    result = measured(xnnpack(name), spec())[0]["forward"]
    first, second = result["outputs"]
    assert 10 < first["sqnr_db"] < 70
    assert first["sqnr_db"] == round(first["sqnr_db"], 1)
    if name != "int8_static_per_channel":
        assert second == {"sqnr_db": None, "note": "the same as eager"}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", RECIPES[:2])
def test_it_leaves_the_program_as_it_is(name: str) -> None:
    programs = []
    for measure in (True, False):
        program = measured(xnnpack(name), spec(), measure)[1]
        programs.append(hashlib.sha256(program).hexdigest())
    assert programs[0] == programs[1]


def test_random_numbers_go_on_as_without_it() -> None:
    class Noisy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand(2)

    noisy = Noisy()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    accuracy.measure(ModelSpec({"forward": Method(noisy, (torch.ones(2),))}), {"forward": noisy})
    assert torch.equal(torch.rand(4), expected)


def test_what_is_not_quantized_is_not_compared() -> None:
    assert measured(xnnpack("fp32"), spec())[0] == {}


class Give(torch.nn.Module):
    """Returns what it was made with, or raises that."""

    def __init__(self, *found: Any) -> None:
        super().__init__()
        self.found = found

    def forward(self, x: torch.Tensor) -> Any:
        """Anything."""
        if isinstance(self.found[0], Exception):
            raise self.found[0]
        return self.found


@pytest.mark.parametrize(
    ("eager", "quantized", "expected"),
    [
        ([torch.ones(4)], [torch.ones(4) * 1.1], [{"sqnr_db": 20.0}]),
        ([torch.ones(2)], [torch.ones(2)], [{"sqnr_db": None, "note": "the same as eager"}]),
        (
            [torch.tensor([2])],
            [torch.tensor([2])],
            [{"sqnr_db": None, "note": "the same as eager"}],
        ),
        (
            [torch.zeros(2)],
            [torch.ones(2)],
            [{"sqnr_db": None, "note": "eager gives zeros, or one of them is not finite"}],
        ),
        (
            [torch.ones(2)],
            [torch.ones(3)],
            [{"sqnr_db": None, "note": "got [3], the eager model gives [2]"}],
        ),
        ([5], [5], [{"sqnr_db": None, "note": "not a tensor"}]),
    ],
)
def test_outputs(eager: Any, quantized: Any, expected: Any) -> None:
    """A number that is none says why."""
    method = Method(Give(*eager), (torch.ones(1),))
    result = accuracy.measure(ModelSpec({"forward": method}), {"forward": Give(*quantized)})
    assert result == {"forward": {"outputs": expected}}


def test_what_cannot_run_is_skipped(tmp_path: Path) -> None:
    """With the reason; the build goes on."""
    method = Method(Give(torch.ones(1)), (torch.ones(1),))
    model = ModelSpec({"forward": method})
    result = accuracy.measure(model, {"forward": Give(RuntimeError("no\nkernel"))})
    assert result == {"forward": {"skipped": "RuntimeError: no kernel"}}
    result = accuracy.measure(model, {"forward": Give(torch.ones(1), torch.ones(1))})
    assert result == {"forward": {"skipped": "got 2 outputs, the eager model gives 1"}}


def test_weights_that_another_process_compares_are_let_go() -> None:
    """With the modules of both methods; what asks for outputs after all loads the model again."""
    calls: list[ModelSpec] = []

    def load() -> ModelSpec:
        net = Net().eval()
        methods = {name: Method(net, (torch.ones(1, 64),)) for name in ("forward", "again")}
        calls.append(ModelSpec(methods))
        return calls[-1]

    model = load()
    expected = eager_outputs(model.methods["forward"].module, (torch.ones(1, 64),))
    weight = weakref.ref(model.methods["forward"].module.layer.weight)
    unload(model, load)
    calls.clear()
    gc.collect()
    assert weight() is None
    result = accuracy.measure(model, {name: Net().eval() for name in model.methods})
    assert result["again"]["outputs"][0] == {"sqnr_db": None, "note": "the same as eager"}
    for method in model.methods.values():
        got = eager_outputs(method.module, method.example_inputs)
        assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))
    assert len(calls) == 1
