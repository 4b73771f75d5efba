"""Bazel's queries on a workspace of many programs, and what Bazel rebuilds."""

from __future__ import annotations

import os
import re
import sys

import pytest
from monorepo import Monorepo

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

pytestmark = pytest.mark.release

# An app for arm64 is analyzed with its runtime and compiler.
_REPOSITORIES = (
    "executorch_libstdcxx_linux_arm64",
    "executorch_runtime_linux_arm64",
    "executorch_zig",
)

_SMALL = Monorepo(programs=6, foundations=2, apps=1)


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    shared.use(*_REPOSITORIES)
    shared.lay(_SMALL.write)
    return shared


def query(workspace: Workspace, expression: str, command: str = "query") -> list[str]:
    said = workspace.run(command, "--noshow_progress", "--noimplicit_deps", expression)
    return sorted(line for line in said.splitlines() if line.startswith("//"))


def test_programs_of_a_foundation(workspace: Workspace) -> None:
    assert query(workspace, "kind(et_program, rdeps(//..., //foundation_01:foundation, 1))") == [
        "//foundation_01:task_1",
        "//foundation_01:task_3",
        "//foundation_01:task_5",
    ]


def test_what_a_program_needs(workspace: Workspace) -> None:
    expression = "deps(//foundation_01:task_3, 1) except //foundation_01:task_3"
    lowering = "//foundation_01:task_3.lowering"
    assert query(workspace, expression) == ["//foundation_01:foundation", lowering]
    expression = f"deps({lowering}, 1) except {lowering}"
    assert query(workspace, expression) == ["//foundation_01:task_3_model", "//recipes:fp32"]


def test_what_a_changed_model_is_felt_by(workspace: Workspace) -> None:
    assert query(workspace, "rdeps(//..., //foundation_00:task_2_model)") == [
        "//apps:app_0",
        "//foundation_00:task_2",
        "//foundation_00:task_2.benchmark",
        "//foundation_00:task_2.divergence",
        "//foundation_00:task_2.divergence_command",
        "//foundation_00:task_2.evaluate",
        "//foundation_00:task_2.lowering",
        "//foundation_00:task_2_model",
        "//foundation_00:task_2_test",
    ]


def test_programs_have_one_configuration(workspace: Workspace) -> None:
    """Includes apps for other platforms."""
    build = workspace.folder / "apps/BUILD.bazel"
    before = build.read_text()
    build.write_text(
        before + 'et_runner_app(name = "arm", programs = ["//foundation_00:task_0"],\n'
        '    platform = "@rules_executorch//toolchains/platforms:linux_arm64")\n'
    )
    try:
        lines = query(
            workspace, 'kind("et_(program_rule|model|recipe) rule", deps(//apps:all))', "cquery"
        )
    finally:
        build.write_text(before)
    names = [line.split()[0] for line in lines]
    assert "//foundation_00:task_0" in names
    assert len(names) == len(set(names)), lines

    # Programs are linked in the build's configuration, and lowered in that of tools.
    program = re.compile(r"\S+:task_\d+ ")
    linked = {line.split()[1] for line in lines if program.match(line)}
    lowered = {line.split()[1] for line in lines if not program.match(line)}
    assert len(linked) == len(lowered) == 1 and linked != lowered, lines


def test_a_change_is_felt_by_what_needs_it(workspace: Workspace) -> None:
    """Nothing else uses them, not even other programs of the foundation."""
    programs = [f"//{_SMALL.package(n)}:task_{n}" for n in range(_SMALL.programs)]
    first = workspace.build(*programs)
    assert len([one for one in first if one.startswith("EtLower ")]) == 8
    assert workspace.build(*programs) == []
    workspace.replace("foundation_01/BUILD.bazel", '"head": "3"', '"head": "33"')
    ran = workspace.build(*programs)
    assert ran == ["EtLink //foundation_01:task_3", "EtLower //foundation_01:task_3.lowering"]
