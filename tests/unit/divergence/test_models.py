"""Models of several methods, with dynamic shapes and state; and those that are refused."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etlower import divergence, expected, stages
from etlower.divergence import Compare, MethodResult
from etlower.expected import Case
from etlower.progress import Progress
from etlower.runs import ProgramRun

nn = torch.nn


class Encoder(nn.Module):
    """Takes rows of any number."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, 8)"""
        return self.layers(x)


class Counter(nn.Module):
    """Adds up what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 8))
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 8)"""
        self.total.add_(x)
        return self.fc(self.total)


class Branches(nn.Module):
    """Has a layer in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.inside = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 8)"""
        x = self.before(x)
        return torch.cond(x.sum() > 0, lambda y: self.inside(y), lambda y: y * 2, (x,))


def recipe() -> Any:
    return xnnpack_recipes.fp32(RecipeContext(Options({}, "//r"), {}, "//r"))


def compared(spec: ModelSpec, samples: dict[str, Any]) -> dict[str, MethodResult]:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)

        def run(file: Path, cases: Sequence[Case]) -> list[Sequence[Any]]:
            expected.write(work / "cases.safetensors", list(cases))
            return ProgramRun(file, [], None, work / "cases.safetensors", [], work).run()[0]

        manager = stages.run(spec, recipe(), Progress(), "//m:net", etrecord=False)
        with open(work / "net.pte", "wb") as out:
            manager.write_to_file(out)
        outputs = {
            name: run(work / "net.pte", divergence.cases_of(name, samples[name]))
            for name in spec.methods
        }
        return Compare(spec, recipe, run, work, "//m:net").all(outputs, samples)


@pytest.mark.release
def test_methods_dynamic_shapes_and_state() -> None:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=2, max=16)
    spec = ModelSpec(
        {
            "encode": Method(Encoder().eval(), (torch.randn(4, 8),), ({0: rows},)),
            "count": Method(Counter().eval(), (torch.randn(1, 8),)),
        }
    )
    samples = {
        "encode": [(torch.randn(4, 8),), (torch.randn(9, 8),)],
        "count": [(torch.randn(1, 8),)],
    }
    results = compared(spec, samples)
    assert list(results) == ["encode", "count"]
    for result in results.values():
        assert result.first is None
        assert not result.notes
    modules = results["encode"].columns["program"].modules
    assert {"layers.0", "layers.1", "layers.2", "layers", ""} <= modules.keys()
    assert results["count"].columns["program"].modules["fc"].sqnr_db > 80


@pytest.mark.release
def test_branches_are_left_out() -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 8),)
    result = compared(
        ModelSpec({"forward": Method(Branches().eval(), inputs)}), {"forward": [inputs]}
    )["forward"]
    assert result.first is None
    modules = result.columns["program"].modules
    assert "before" in modules
    assert "inside" not in modules


def test_exported_program_is_refused() -> None:
    inputs = (torch.randn(4, 8),)
    program = torch.export.export(Encoder().eval(), inputs)
    spec = ModelSpec({"forward": Method(program, inputs)})
    compare = Compare(spec, recipe, lambda file, cases: [], Path("none"), "//m:prog")
    with pytest.raises(BuildError, match="//m:prog: the method .* which has no modules to compare"):
        compare.all({}, {})
