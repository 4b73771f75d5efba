"""Rejects programs whose mutable buffers would not start with the model's values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etbuild.recipes import share_mutable_buffers
from etfast import path
from etlink.link import link
from etlink.lowered import Lowered
from etlink.split import split
from etlower import capture, lower, stages, state
from etlower.progress import Progress
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.export import ExportRecipe
from executorch.runtime import Runtime

X = torch.arange(4.0)
LOWERINGS = pytest.mark.parametrize(
    "lowering", ["fast", pytest.param("stock", marks=pytest.mark.release)]
)


class Inner(torch.nn.Module):
    def __init__(self, begin: torch.Tensor, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("sum", begin, persistent=persistent)
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum.add_(x)
        self.count.add_(1)
        return self.sum * 2 + self.count


class Net(torch.nn.Module):
    """A sum of what it is given, in a module of its own, behind a layer."""

    def __init__(self, begin: torch.Tensor, persistent: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.inner = Inner(begin, persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.layer(x))


class Learning(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.add_(x)
        return self.weight * 2


def recipe(*patterns: str, base: ExportRecipe | None = None) -> ExportRecipe:
    result = base or ExportRecipe(name="portable")
    passes = [InitializedMutableBufferPass(list(patterns))] if patterns else []
    result.executorch_backend_config = ExecutorchBackendConfig(passes=passes)
    return result


def lowered(net: torch.nn.Module, recipe: ExportRecipe, lowering: str = "fast") -> Any:
    spec = ModelSpec({"forward": Method(net.eval(), (X,))})
    with path.chosen(lowering):
        return stages.run(spec, recipe, Progress(), "//t:net", etrecord=False)


def run(net: torch.nn.Module, program: Path, data: Path | None = None) -> list[bool]:
    """Tells whether each of three answers, one after the other, is eager's."""
    method = Runtime.get().load_program(program, data_path=data).load_method("forward")
    eager = copy.deepcopy(net).eval()
    with torch.no_grad():
        return [torch.allclose(method.execute([X])[0], eager(X)) for _ in range(3)]


@LOWERINGS
@pytest.mark.parametrize("persistent", [True, False])
def test_lost_values(lowering: str, persistent: bool) -> None:
    with pytest.raises(BuildError) as caught:
        lowered(Net(torch.ones(4), persistent), recipe("count"), lowering)
    assert caught.value.what == (
        '//t:net: the method "forward" changes "inner.sum", which would begin with zeros, expected '
        "the model's values: ExecuTorch does not store those of a buffer that changes."
    )
    assert 'InitializedMutableBufferPass(["inner_sum"])' in caught.value.hint


@pytest.mark.parametrize(
    "begin",
    [
        torch.tensor([0.0, 0.0, 0.0, float("nan")]),
        torch.tensor([0.0, 0.0, 1e-45, 0.0]),
        torch.eye(4)[:, 2],
    ],
    ids=["nan", "tiny", "not contiguous"],
)
def test_one_value_is_enough(begin: torch.Tensor) -> None:
    with pytest.raises(BuildError, match=r'changes "inner.sum"'):
        lowered(Net(begin), recipe())


def test_state_that_begins_with_zeros(tmp_path: Path) -> None:
    """The runtime begins with zeros, whatever was in its memory before."""
    net = Net(torch.zeros(4))
    program = tmp_path / "net.pte"
    program.write_bytes(lowered(net, recipe()).buffer)
    for _ in range(20):
        assert run(net, program) == [True, True, True]


@LOWERINGS
def test_the_way_out(lowering: str, tmp_path: Path) -> None:
    """The message's advice gives eager's numbers, with weights inside and beside the program."""
    net = Net(torch.linspace(1, 2, 4))
    result = recipe("inner_sum")
    manager = lowered(net, result, lowering)
    program = tmp_path / "program.pte"
    program.write_bytes(manager.buffer)
    names = capture.WeightNames()
    hints = capture.hints(manager, names, program, tmp_path, result.executorch_backend_config)
    split(program, tmp_path / "lowered", "//t:net", lower.versions(), hints)
    index = Lowered(tmp_path / "lowered")
    link(index, tmp_path / "embedded.pte")
    link(index, tmp_path / "separate.pte", tmp_path / "separate.ptd")
    assert run(net, program) == [True, True, True]
    assert run(net, tmp_path / "embedded.pte") == [True, True, True]
    assert run(net, tmp_path / "separate.pte", tmp_path / "separate.ptd") == [True, True, True]


def quantized(*patterns: str) -> ExportRecipe:
    name = "//backends/xnnpack:int8_static_per_tensor"
    base = xnnpack_recipes.int8_static_per_tensor(RecipeContext(Options({}, name), name))
    return recipe(*patterns, base=base)


def begins(manager: Any) -> Sequence[float]:
    """The values of the buffer that a program begins with."""
    program = manager.exported_program("forward")
    return program.state_dict["inner.sum"].tolist()


def test_calibration_leaves_no_trace() -> None:
    """It runs the model, which changes its state: a program begins with what was before."""
    net = Net(torch.zeros(4))
    assert begins(lowered(net, quantized())) == [0, 0, 0, 0]
    assert net.inner.sum.tolist() == [0, 0, 0, 0]
    assert begins(lowered(Net(torch.ones(4)), quantized("inner_sum"))) == [1, 1, 1, 1]


class InPlace(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


@LOWERINGS
@pytest.mark.parametrize(
    ("net", "changed"),
    [(Learning(), 'parameter "weight"'), (InPlace(), 'input "x"')],
    ids=["parameter", "input"],
)
def test_what_else_changes(net: torch.nn.Module, changed: str, lowering: str) -> None:
    """It would become the first output."""
    with pytest.raises(BuildError) as caught:
        lowered(net, recipe(), lowering)
    assert caught.value.what == (
        f'//t:net: the method "forward" changes the {changed}: ExecuTorch would give it as an '
        "output, before those of the model."
    )


class Assigned(torch.nn.Module):
    """A buffer that is assigned, which a strict export would forget."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("h", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h = torch.tanh(self.layer(x) + self.h)
        return self.h * 2


class Part:
    """An object that is no module."""

    def __init__(self) -> None:
        self.rows = [torch.zeros(4)]


class Kept(torch.nn.Module):
    """Attributes that forward changes, each in a way of its own."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.count, self.first = kind, 0, True
        self.total = torch.zeros(4)
        self.seen: dict[str, int] = {}
        self.part = Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "count":
            self.count += 1
            return x + self.count
        if self.kind == "first":
            x = x + 1 if self.first else x
            self.first = False
            return x
        if self.kind == "total":
            self.total = self.total + x
            return self.total * 2
        if self.kind == "seen":
            self.seen["x"] = self.seen.get("x", 0) + 1
            return x * self.seen["x"]
        self.part.rows = [self.part.rows[0] + x]
        return self.part.rows[0] * 2


@pytest.mark.few(1)
@pytest.mark.parametrize("strict", [True, False, None])
def test_a_buffer_that_is_assigned(strict: bool | None, tmp_path: Path) -> None:
    net, program = Assigned(), tmp_path / "net.pte"
    spec = ModelSpec({"forward": Method(net.eval(), (X,), strict=strict)})
    manager = stages.run(spec, ExportRecipe(name="p"), Progress(), "//t:net", etrecord=False)
    program.write_bytes(manager.buffer)
    assert run(net, program) == [True, True, True]


def test_a_change_that_the_program_lacks() -> None:
    """It has the name of the buffer: here the export is of a module that changes less."""
    net = Net(torch.zeros(4))
    manager = lowered(net, recipe())
    programs = {"forward": torch.export.export(net, (X,))}
    state.check(manager, programs, {"forward": ["inner.sum"]}, "//t:net")
    with pytest.raises(BuildError, match=r'changes the buffer "other", and its export does not'):
        state.check(manager, programs, {"forward": ["inner.sum", "other"]}, "//t:net")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("count", "count"),
        ("first", "first"),
        ("total", "total"),
        ("seen", "seen['x']"),
        ("part", "part.rows[0]"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_attributes_that_change(kind: str, name: str, strict: bool) -> None:
    spec = ModelSpec({"forward": Method(Kept(kind), (X,), strict=strict)})
    with pytest.raises(BuildError) as caught:
        stages.run(spec, recipe(), Progress(), "//t:net", etrecord=False)
    assert f'the method "forward" changes the attribute "{name}"' in caught.value.what
    assert "register_buffer" in caught.value.hint


class Remembers(torch.nn.Module):
    """An attribute that the first call computes, and no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(4.0)
        return x + self.table


def test_an_attribute_that_is_computed_once() -> None:
    stages.run(
        ModelSpec({"forward": Method(Remembers(), (X,), strict=False)}),
        recipe(),
        Progress(),
        "//t:net",
        etrecord=False,
    )


class Holds(torch.nn.Module):
    def __init__(self, name: str, buffer: torch.Tensor, factor: float) -> None:
        super().__init__()
        self.name, self.factor = name, factor
        self.register_buffer(name, buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        getattr(self, self.name).add_(x * self.factor)
        return getattr(self, self.name) * 1.0


def shared(first: torch.nn.Module, second: torch.nn.Module) -> Any:
    spec = ModelSpec({"a": Method(first, (X,)), "b": Method(second, (X,))})
    chosen = share_mutable_buffers(ExportRecipe(name="portable"), "//t:recipe")
    return stages.run(spec, chosen, Progress(), "//t:net", etrecord=False)


@pytest.mark.release
def test_buffers_that_methods_share() -> None:
    """By name and by identity: others of the same name would be one."""
    buffer = torch.zeros(4)
    shared(Holds("h", buffer, 1.0), Holds("h", buffer, 2.0))
    with pytest.raises(BuildError, match=r'different buffers with the name "h"'):
        shared(Holds("h", buffer, 1.0), Holds("h", torch.zeros(4), 2.0))
    with pytest.raises(BuildError, match=r'is called "h" in one and "g" in the other'):
        shared(Holds("h", buffer, 1.0), Holds("g", buffer, 2.0))
