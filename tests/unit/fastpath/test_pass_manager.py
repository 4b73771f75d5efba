"""Checks that one manager of passes made are not repeated by the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from etfast import path
from executorch.exir import to_edge
from executorch.exir.pass_base import ExportPass
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch._export.verifier import Verifier
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult


@pytest.fixture
def _installed() -> Iterator[None]:
    with path.installed(path.units(["pass_manager"])) as used:
        assert used.active == ["pass_manager"]
        yield


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that are verified."""
    result: list[ExportedProgram] = []
    check = Verifier.check

    def watched(self: Verifier, program: ExportedProgram) -> None:
        result.append(program)
        check(self, program)

    monkeypatch.setattr(Verifier, "check", watched)
    return result


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


class Nothing(ExportPass):
    """Makes the same graph anew."""


class Looking(ExportPass):
    """Says that it changed nothing."""

    def call(self, graph_module: GraphModule) -> PassResult:
        return PassResult(graph_module, False)


class Method(ExportPass):
    """Adds a call of a method, which no program may have."""

    def call(self, graph_module: GraphModule) -> PassResult:
        graph = graph_module.graph
        first = next(iter(graph.nodes))
        with graph.inserting_after(first):
            graph.call_method("relu", (first,))
        return PassResult(graph_module, True)


def program() -> ExportedProgram:
    exported = torch.export.export(Net().eval(), (torch.ones(2, 2),), strict=False)
    return to_edge(exported).exported_program()


def after(made: ExportedProgram, given: ExportPass) -> ExportedProgram:
    """A program after a pass, as XNNPACK runs each of its passes."""
    result = ExportedProgramPassManager([given])(made)
    return result.exported_program if result.modified else made


def passes(made: ExportedProgram) -> None:
    for given in (Nothing(), Looking(), Nothing()):
        made = after(made, given)


def test_upstream_checks_before_and_after_each_pass(checks: list[ExportedProgram]) -> None:
    made = program()
    checks.clear()
    passes(made)
    assert len(checks) == 6


@pytest.mark.usefixtures("_installed")
def test_a_checked_program_is_checked_after_the_next_pass_only(
    checks: list[ExportedProgram],
) -> None:
    made = program()
    checks.clear()
    passes(made)
    assert len(checks) == 3


@pytest.mark.usefixtures("_installed")
def test_a_program_that_another_has_changed_is_checked(checks: list[ExportedProgram]) -> None:
    made = after(program(), Nothing())
    Method()(made.graph_module)
    checks.clear()
    with pytest.raises(Exception, match="call_method"):
        after(made, Nothing())


@pytest.mark.usefixtures("_installed")
def test_what_a_pass_makes_is_checked() -> None:
    made = after(program(), Nothing())
    with pytest.raises(Exception, match="call_method"):
        after(made, Method())
