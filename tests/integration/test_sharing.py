"""A user's workspace that shares weights, with real Bazel: rebuilds and errors."""

from __future__ import annotations

import array
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_FP32 = '"@rules_executorch//backends/xnnpack:fp32"'
_INT4 = '"@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight"'


def trio(precision: str) -> list[str]:
    """A base and two tasks on one foundation."""
    names = ("foundation", "base", "task1", "task2")
    return [f"//:{name}_{precision}" for name in names]


# What the tests look at and change; //... has more.
_PROGRAMS = [
    *trio("fp32"),
    *trio("int4"),
    "//:changing_int4",
    "//:changing_int4_test",
    "//:foundation_int8_dynamic",
    "//:rank4_fp32",
    "//:twins_int8_dynamic",
    "//:twins_int8_static",
]


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    """One workspace for all tests; each test restores what it changes."""
    shared.lay("tests/e2e/sharing")
    shared.run("build", *_PROGRAMS)
    return shared


def added(workspace: Workspace, text: str) -> Path:
    """Adds a package with more targets; returns its folder."""
    number = len(list(workspace.folder.glob("more*")))
    folder = workspace.folder / f"more{number}"
    folder.mkdir()
    load = "et_model", "et_program", "et_program_test", "et_shared_data"
    names = ", ".join(f'"{n}"' for n in load)
    start = f'load("@rules_executorch//rules:defs.bzl", {names})\n'
    (folder / "BUILD.bazel").write_text(start + text)
    exports = 'package(default_visibility = ["//visibility:public"])\n'
    build = workspace.folder / "BUILD.bazel"
    if exports not in build.read_text():
        loaded, rest = build.read_text().split(")\n", 1)
        build.write_text(f"{loaded})\n{exports}{rest}")
    return folder


@pytest.mark.release
def test_all_tests_pass_and_nothing_is_built_twice(workspace: Workspace) -> None:
    """The workspace's own tests; then a null build."""
    printed = workspace.run("test", "//...")
    assert " tests pass" in printed
    assert workspace.build("//...") == []


@pytest.mark.release
def test_more_shapes_and_ranks(workspace: Workspace) -> None:
    """In precisions that add nothing to what the other programs show."""
    printed = workspace.run("test", "//:more_programs", "//:more_tests")
    assert "2 tests pass" in printed


def test_a_base_and_its_foundation_are_lowered_once(workspace: Workspace) -> None:
    """One et_lowering, or a program that uses the lowering of its shared data."""
    folder = added(
        workspace,
        f"""
et_shared_data(name = "f", model = "//:base_9", recipe = {_FP32})
et_program(name = "p", model = "//:base_9", recipe = {_FP32}, shared_data = [":f"])
""",
    )
    ran = workspace.build(f"//{folder.name}:p")
    package = f"//{folder.name}"
    assert ran == [f"EtLink {package}:p", f"EtLower {package}:f.lowering", f"EtShare {package}:f"]


def test_a_new_adapter_lowers_itself_only(workspace: Workspace) -> None:
    """Other programs and the foundation's bytes do not change."""
    workspace.build(*_PROGRAMS)
    before = workspace.outputs()
    folder = added(
        workspace,
        f"""
et_model(name = "model", srcs = ["//:nets.py"], args = {{"task": "9"}}, entry_point = "nets:text")
et_program(
    name = "task9",
    model = ":model",
    recipe = {_INT4},
    shared_data = ["//:foundation_int4"],
    weights = "separate",
    adapter_data = "by_name",
)
et_program_test(
    name = "test",
    adapter = ":task9",
    min_sqnr_db = "12",
    program = "//:task1_int4",
)
""",
    )
    package = f"//{folder.name}"
    ran = workspace.build(*_PROGRAMS, f"{package}:all")
    names = [("EtExpect", "model"), ("EtLink", "task9"), ("EtLower", "task9.lowering")]
    assert ran == [f"{mnemonic} {package}:{name}" for mnemonic, name in names]
    assert workspace.outputs() == before
    program = workspace.folder / "bazel-bin" / folder.name / "task9.pte"
    others = workspace.folder / "bazel-bin/task1_int4.pte"
    assert program.read_bytes() == others.read_bytes()
    workspace.run("test", f"{package}:test")


@contextlib.contextmanager
def other_values(workspace: Workspace, factor: float) -> Iterator[None]:
    """The adapter with other values and the same structure."""
    path = workspace.folder / "adapter.safetensors"
    before = path.read_bytes()
    start = 8 + int.from_bytes(before[:8], "little")
    values = array.array("f", before[start:])
    path.unlink()
    path.write_bytes(before[:start] + array.array("f", (v * factor for v in values)).tobytes())
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("precision", ["int4", pytest.param("portable", marks=pytest.mark.release)])
def test_new_values_of_an_adapter_lower_nothing(workspace: Workspace, precision: str) -> None:
    """The result has the bytes of a lowering with these values."""
    name = f"changing_{precision}"
    workspace.build(f"//:{name}", f"//:{name}_test")
    before = workspace.outputs()
    recipe = _INT4 if precision == "int4" else '"@rules_executorch//backends/portable:fp32"'
    args = '{"rank": "2", "task": "4"}'
    folder = added(
        workspace,
        f"""
et_model(
    name = "model",
    srcs = ["//:nets.py"],
    args = {args},
    data = ["//:adapter.safetensors"],
    entry_point = "nets:text",
)
et_program(
    name = "p",
    adapter_data = "by_name",
    model = ":model",
    recipe = {recipe},
    shared_data = ["//:foundation_{precision}"],
    weights = "separate",
)
""",
    )
    with other_values(workspace, -1.5):
        ran = workspace.build(f"//:{name}")
        lowering = f"//:{name}.lowering"
        assert ran == [f"EtAdapt {lowering}", f"EtLink //:{name}", f"EtPlaceholder {lowering}"]
        after = workspace.outputs()
        assert after[f"{name}.pte"] == before[f"{name}.pte"]
        assert after[f"{name}.ptd"] != before[f"{name}.ptd"]
        workspace.run("test", f"//:{name}_test")
        workspace.build(f"//{folder.name}:p")
    made = workspace.folder / "bazel-bin" / folder.name
    for ending in ("pte", "ptd"):
        assert (made / f"p.{ending}").read_bytes() == (
            workspace.folder / f"bazel-bin/{name}.{ending}"
        ).read_bytes()


def test_an_adapter_that_the_lowering_changes_is_refused(workspace: Workspace) -> None:
    """Values of an adapter cannot be replaced once the recipe quantizes its layers."""
    workspace.build("//:foundation_int8_dynamic")
    folder = added(
        workspace,
        """
et_program(
    name = "p",
    adapter_data = "by_name",
    model = "//:changing",
    recipe = "@rules_executorch//backends/xnnpack:int8_dynamic_per_channel",
    shared_data = ["//:foundation_int8_dynamic"],
    weights = "separate",
)
""",
    )
    printed = workspace.failed(f"//{folder.name}:p")
    (folder / "BUILD.bazel").unlink()
    assert 'lowering changed the adapter\'s weight "down.lora_a.weight"' in printed
    assert "each adapter is then lowered." in printed


def test_changed_sharing_never_lowers_again(workspace: Workspace) -> None:
    """Changing what is shared only links."""
    workspace.build("//:task1_fp32")
    old = '        min_shared = "60%",\n'
    workspace.replace("BUILD.bazel", old, '        min_shared = "61%",\n')
    try:
        ran = workspace.build("//:task1_fp32")
    finally:
        workspace.replace("BUILD.bazel", '        min_shared = "61%",\n', old)
    assert ran == ["EtLink //:task1_fp32"]


@pytest.mark.parametrize(
    "precision",
    [
        "fp32",
        "int4",
        pytest.param("int8_dynamic", marks=pytest.mark.release),
        pytest.param("portable", marks=pytest.mark.release),
    ],
)
def test_programs_carry_no_copy(workspace: Workspace, precision: str) -> None:
    """A base and two tasks are no larger than the foundation and two adapters."""
    workspace.build(*trio(precision))
    bin_folder = workspace.folder / "bazel-bin"
    size = {p.name: p.stat().st_size for p in bin_folder.iterdir() if p.suffix in (".pte", ".ptd")}
    for task in ("task1", "task2"):
        manifest = json.loads((bin_folder / f"{task}_{precision}.manifest.json").read_text())
        keys = manifest["files"][f"{task}_{precision}.ptd"]["keys"]
        names = [n for e in keys for n in e["names"]]
        assert names and all(".lora_" in n for n in names), names
        assert [e["key"] for e in keys] == sorted(names)
    # These models are tiny, so the tables of their programs count.
    data = size[f"foundation_{precision}.ptd"] + 2 * size[f"task1_{precision}.ptd"]
    programs = sum(size[f"{name}_{precision}.pte"] for name in ("base", "task1", "task2"))
    assert programs < 0.2 * data
    same = [(bin_folder / f"task{n}_{precision}.pte").read_bytes() for n in (1, 2)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            f'et_program(name = "p", model = "//:other_base", recipe = {_FP32}, '
            'shared_data = ["//:foundation_fp32"])',
            [
                '"embedding.weight" has other bytes in its shared data',
                "//:foundation_fp32 has sha256",
            ],
        ),
        (
            f'et_program(name = "p", model = "//:base", recipe = {_INT4}, '
            'shared_data = ["//:foundation_fp32"])',
            ["names matched, but their bytes differ", "another dtype (program: qbint4 [512,"],
        ),
        (
            f'et_program(name = "p", model = "//:twins", recipe = {_INT4}, '
            'shared_data = ["//:foundation_int4"])',
            ["gives it nothing: no weight has the same name or bytes", "first.weight"],
        ),
        (
            'et_shared_data(name = "f", srcs = ["damaged.ptd", "//:known"])\n'
            f'et_program(name = "p", model = "//:base", recipe = {_FP32}, shared_data = [":f"])',
            ["damaged.ptd is damaged, or not the file of its manifest", "expected "],
        ),
    ],
    ids=["other_weights", "other_recipe", "other_model", "damaged_file"],
)
def test_what_does_not_fit_is_refused(
    workspace: Workspace, target: str, expected: list[str]
) -> None:
    """The check runs before anything else and gives the reason."""
    workspace.build("//:foundation_fp32")
    folder = added(workspace, target)
    if "damaged" in target:
        build = workspace.folder / "BUILD.bazel"
        known = (
            'filegroup(name = "known", srcs = [":foundation_fp32"], output_group = "manifest")\n'
        )
        build.write_text(build.read_text() + known)
        data = bytearray((workspace.folder / "bazel-bin/foundation_fp32.ptd").read_bytes())
        data[len(data) // 2] ^= 1
        (folder / "damaged.ptd").write_bytes(data)
    printed = workspace.failed(f"//{folder.name}:p")
    for text in expected:
        assert text in printed
    (folder / "BUILD.bazel").unlink()


def test_an_adapter_of_another_rank_is_refused(workspace: Workspace) -> None:
    """The adapter's manifest is checked before the runtime reads the file."""
    folder = added(
        workspace,
        'et_program_test(name = "t", adapter = "//:rank4_fp32", program = "//:task1_fp32")\n',
    )
    printed = workspace.failed(f"//{folder.name}:t", command="test")
    (folder / "BUILD.bazel").unlink()
    expected = 'its key "down.lora_a.weight" has 8192 bytes, expected 16384 (another rank or base)'
    assert expected in printed


@pytest.mark.release
@pytest.mark.parametrize("precision", ["int8_dynamic", "int8_static"])
def test_an_unsafe_weight_cache_is_recorded(workspace: Workspace, precision: str) -> None:
    """Equal integers with different scales share a key."""
    workspace.build("--output_groups=manifest,report", f"//:twins_{precision}")
    folder = workspace.folder / "bazel-bin"
    name = f"twins_{precision}"
    manifest = json.loads((folder / f"{name}.manifest.json").read_text())
    [reason] = manifest["programs"][name]["weight_cache"]["reasons"]
    assert reason.startswith("first.weight and second.weight have equal bytes and are packed in 2")
    report = json.loads((folder / f"twins_{precision}.report.json").read_text())
    assert report["weight_cache"]["reasons"] == [reason]
    workspace.build("--output_groups=manifest", "//:base_fp32")
    safe = json.loads((folder / "base_fp32.manifest.json").read_text())
    assert "reasons" not in safe["programs"]["base_fp32"]["weight_cache"]
