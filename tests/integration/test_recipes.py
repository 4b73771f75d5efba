"""Builds a user's workspace that uses another module's recipes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    shared.lay("tests/e2e/recipe_user")
    recipes = shared.module / "tests/e2e/recipes"
    shared.replace("MODULE.bazel", 'path = "../recipes"', f'path = "{recipes}"')
    shared.run("test", "//...")
    return shared


def program(workspace: Workspace, name: str) -> bytes:
    path: Path = workspace.folder / "bazel-bin" / f"{name}.pte"
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "has", "has_not"),
    [
        # Vulkan goes first, and leaves nothing to XNNPACK.
        pytest.param(*("net_gpu", b"VulkanBackend", b"XnnpackBackend"), marks=pytest.mark.release),
        ("net_int4", b"XnnpackBackend", b"VulkanBackend"),
        ("net_doubled", b"double 1", b"XnnpackBackend"),
        ("net_linear_only", b"XnnpackBackend", b"aten::linear"),
        ("net_without_dropout", b"XnnpackBackend", b"aten::native_dropout"),
    ],
)
def test_what_the_programs_delegate_to(
    name: str, has: bytes, has_not: bytes, workspace: Workspace
) -> None:
    data = program(workspace, name)
    assert has in data
    assert has_not not in data


def test_without_its_quantization(workspace: Workspace) -> None:
    """Weights stay 32-bit floats, and the partitioner is the recipe's."""
    plain, quantized = program(workspace, "net_plain"), program(workspace, "net_linear_only")
    assert b"XnnpackBackend" in plain
    assert len(plain) > 2 * len(quantized)


def test_calibration_from_a_file(workspace: Workspace) -> None:
    """Different inputs give different scales."""
    assert program(workspace, "net_calibrated") != program(workspace, "net_linear_only")


def test_calibration_that_nothing_reads(workspace: Workspace) -> None:
    old, new = (
        f'"@team_recipes//team:{name}",\n)\n\net_program(\n    name = "net_plain"'
        for name in ("linear_only", "int4")
    )
    workspace.replace("BUILD.bazel", old, new)
    try:
        message = "//:net_calibrated: calibration is given, and the recipe @"
        assert message in workspace.failed("//:net_calibrated")
    finally:
        workspace.replace("BUILD.bazel", new, old)
