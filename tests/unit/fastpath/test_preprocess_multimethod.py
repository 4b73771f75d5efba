"""Half of the partitions are made in a child, and the program and its names are the same."""

from __future__ import annotations

import os
from typing import Any

import nets
import pytest
import recipes
import torch
from etbuild import Method, ModelSpec
from etfast import path, preprocess_multimethod
from etlower import forked
from etlower.names import FoldedNames, watching_xnnpack
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from lowerings import digest


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "cores", lambda: 2)
    monkeypatch.setattr(preprocess_multimethod, "_WORTH", 0)


def two_methods() -> ModelSpec:
    net = nets.Diamond().eval()
    return ModelSpec(
        {name: Method(net, (torch.randn(rows, 32),)) for name, rows in (("many", 4), ("one", 1))}
    )


def named(lowering: str) -> tuple[str, list[list[tuple[str, ...]]]]:
    """The digest of a program of several partitions, and the names of their constants in order."""
    names: dict[str, list[tuple[str, ...]]] = {}
    torch.manual_seed(0)
    with watching_xnnpack(names, FoldedNames()):
        program = digest(two_methods(), recipes.ALL["fp32"](), lowering)
    return program, list(names.values())


def test_same_program_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = named("stock")
    here: list[int] = []
    preprocess = XnnpackBackend.preprocess

    def counted(*args: Any) -> Any:
        here.append(os.getpid())
        return preprocess(*args)

    monkeypatch.setattr(XnnpackBackend, "preprocess", staticmethod(counted))
    fast = named("fast")
    assert fast == stock
    partitions = sum(map(len, fast[1]))
    # Those that the child made are not counted in this process.
    assert 0 < len(here) < partitions


def test_halves() -> None:
    first = preprocess_multimethod._first_half
    assert first([]) == 0
    assert first([5]) == 1
    assert first([5, 5]) == 1
    assert first([1, 1, 8]) == 3
    assert first([8, 1, 1]) == 1


def test_little_work_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocess_multimethod, "_WORTH", 100)
    assert preprocess_multimethod._first_half([40, 40]) == 2
    assert preprocess_multimethod._first_half([60, 60]) == 1


def test_is_installed_and_removed() -> None:
    before = XnnpackBackend.preprocess_multimethod.__func__
    with path.installed(path.units(["preprocess_multimethod"])) as used:
        assert used.active == ["preprocess_multimethod"]
        assert XnnpackBackend.preprocess_multimethod.__func__ is not before
    assert XnnpackBackend.preprocess_multimethod.__func__ is before
    assert "preprocess_multimethod" not in vars(XnnpackBackend)
