"""A user's workspace, built with real Bazel: results, and what is built again."""

from __future__ import annotations

import re

from nested import Workspace

_PROGRAMS = ["//:classifier_portable", "//:pair1_xnnpack", "//:two_methods_separate"]


def test_all_tests_pass(workspace: Workspace) -> None:
    """The workspace's own tests compare every program with its eager model."""
    printed = workspace.run("test", "//...")
    declared = workspace.run("query", "tests(//...)")
    wanted = len(re.findall(r"^//", declared, re.MULTILINE))
    assert wanted >= 12
    assert f"Executed {wanted} out of {wanted} tests: {wanted} tests pass." in printed


def test_nothing_is_built_twice(workspace: Workspace) -> None:
    """A null build starts nothing."""
    workspace.build("//...")
    again = workspace.build("//...")
    assert again.ran == []
    assert again.processes == {"internal": 1}


def test_programs_are_programs(workspace: Workspace) -> None:
    """The file identifier of ExecuTorch programs and data files."""
    workspace.build("//:two_methods_separate")
    folder = workspace.folder / "bazel-bin"
    assert (folder / "two_methods_separate.pte").read_bytes()[4:8] == b"ET12"
    assert (folder / "two_methods_separate.ptd").read_bytes()[4:8] == b"FT01"


def test_output_groups(workspace: Workspace) -> None:
    """What is asked for is made without another lowering; nobody asks for a record by default."""
    workspace.build("//:classifier_own", "//:two_methods_separate")
    folder = workspace.folder / "bazel-bin"
    assert not (folder / "classifier_own.etrecord").exists()
    build = workspace.build("//:classifier_own", "--output_groups=report,bundled")
    assert build.ran == ["EtBundleProgram //:classifier_own", "EtReport //:classifier_own"]
    assert (folder / "classifier_own.report.html").read_text().startswith("<!")
    assert (folder / "classifier_own.bpte").stat().st_size > 0
    workspace.build("//:classifier_own", "--output_groups=etrecord")
    assert (folder / "classifier_own.etrecord").read_bytes()[:2] == b"PK"
    # All of it by the process that has torch loaded.
    assert workspace.workers() == {"EtLower"}
    # A bundle holds one file, so separate weights are embedded for it.
    workspace.build("//:two_methods_separate", "--output_groups=bundled")
    assert (folder / "two_methods_separate.bpte").stat().st_size > 0


def test_a_change_of_args_lowers_that_program_only(workspace: Workspace) -> None:
    """Other programs of the same sources stay as they are."""
    targets = ["//:pair1_xnnpack", "//:pair2_xnnpack", "//:classifier_own"]
    workspace.build(*targets)
    old, new = 'args = {"last": str(last)}', 'args = {"last": str(last if last > 1 else 9)}'
    workspace.replace("BUILD.bazel", old, new)
    try:
        build = workspace.build(*targets)
    finally:
        workspace.replace("BUILD.bazel", new, old)
    assert build.ran == ["EtLink //:pair1_xnnpack", "EtLower //:pair1_xnnpack"]


def test_a_change_of_options_lowers_those_programs_only(workspace: Workspace) -> None:
    """An option of a recipe is an input of the programs that use it."""
    targets = ["//:classifier_groups", "//:classifier_own", "//:two_methods_int4"]
    workspace.build(*targets)
    old, new = '"group_size": "64"', '"group_size": "32"'
    workspace.replace("own/BUILD.bazel", old, new)
    try:
        build = workspace.build(*targets)
    finally:
        workspace.replace("own/BUILD.bazel", new, old)
    assert build.ran == ["EtLink //:classifier_groups", "EtLower //:classifier_groups"]


def test_a_comment_in_an_unrelated_model_builds_nothing(workspace: Workspace) -> None:
    """A source that a program doesn't use is none of its inputs."""
    other = workspace.folder / "other.py"
    other.write_text("import nets\n\n\ndef build(ctx):\n    return 1\n")
    model = 'et_model(name = "other", srcs = ["other.py"], entry_point = "other:build")\n'
    workspace.replace("BUILD.bazel", "# Two programs that", model + "\n# Two programs that")
    try:
        workspace.build(*_PROGRAMS)
        with open(other, "a") as out:
            out.write("# A comment.\n")
        assert workspace.build(*_PROGRAMS).ran == []
    finally:
        workspace.replace("BUILD.bazel", model + "\n", "")
        other.unlink()


def test_a_comment_in_a_used_library_stops_at_the_lowering(workspace: Workspace) -> None:
    """It lowers again; as the result is the same, nothing is linked again."""
    workspace.build("//:classifier_own")
    old = '"""x + linear(x)."""'
    workspace.replace("lib/layers.py", old, old + "  # A comment.")
    try:
        build = workspace.build("//:classifier_own")
    finally:
        workspace.replace("lib/layers.py", old + "  # A comment.", old)
    assert build.ran == ["EtLower //:classifier_own"]


def test_link_settings_never_lower_again(workspace: Workspace) -> None:
    """Where weights go is a matter of linking."""
    workspace.build("//:pair2_xnnpack")
    old = '        model = "pair%d" % last,\n'
    new = old + '        weights = "separate",\n'
    workspace.replace("BUILD.bazel", old, new)
    try:
        build = workspace.build("//:pair2_xnnpack")
    finally:
        workspace.replace("BUILD.bazel", new, old)
    assert build.ran == ["EtLink //:pair2_xnnpack"]
