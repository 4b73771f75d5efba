"""Builds a user's workspace with real Bazel: results, rebuilds, caches, determinism."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_PROGRAMS = ["//:classifier_portable", "//:pair1_xnnpack", "//:two_methods_separate"]


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    """One workspace for all tests; each test restores what it changes."""
    return shared


def documented_fetches(workspace: Workspace) -> dict[str, set[str]]:
    """Repositories by what they are fetched for, as a page lists them."""
    page = (workspace.module / "docs/howto/ci.md").read_text()
    section = page.split("## Know what a build fetches\n")[1].split("\n## ")[0]
    table: dict[str, set[str]] = {}
    for name, moment in re.findall(r"^\| `(\w+)` \|.*\| ([a-z ]+) \|$", section, re.MULTILINE):
        table.setdefault(moment, set()).add(name)
    return table


def fetched_repositories(workspace: Workspace) -> tuple[set[str], set[str]]:
    """Modules, and repositories of the rules' extension."""
    names = {path.name for path in (workspace.base / "external").iterdir()}
    names = {name.replace("+", "~") for name in names if not name.startswith("@")}
    modules = {name.rstrip("~") for name in names if re.fullmatch(r"\w+~?", name)}
    extension = "rules_executorch~~executorch~"
    return modules, {n.removeprefix(extension) for n in names if n.startswith(extension)}


def test_what_a_program_fetches(workspace: Workspace) -> None:
    """The first test, before anything else is fetched: queries, a build and a test of a program.

    executorch_python comes late, as the exporter is that of the outer build.
    """
    documented = documented_fetches(workspace)
    graph = workspace.run("mod", "graph")
    rules = graph[graph.index("rules_executorch@") :].splitlines()[1:]
    direct = {line[8:].partition("@")[0] for line in rules if re.match(r"│   [├└]───\w", line)}
    own = {name for name in documented["a query"] if name.startswith("executorch_")}
    assert documented["a query"] - own == direct
    program = "//:pair1_xnnpack"
    for target in (program, f"{program}.lowering", f"{program}.benchmark"):
        workspace.run("query", f"deps({target})")
    modules, ours = fetched_repositories(workspace)
    assert direct <= modules
    assert ours == own

    workspace.build(program)
    built, ours = fetched_repositories(workspace)
    assert built == modules
    assert ours == own | documented["a build"] - {"executorch_python"}

    workspace.run("test", "//:classifier_portable_test")
    tested, ours = fetched_repositories(workspace)
    assert tested == modules
    assert ours == own | documented["a build"] | documented["a test"]


def test_all_tests_pass_and_nothing_is_built_twice(workspace: Workspace) -> None:
    """The workspace's own tests; then a null build."""
    printed = workspace.run("test", "//...")
    assert "11 tests pass" in printed
    assert workspace.build("//...") == []


@pytest.mark.release
def test_more_programs(workspace: Workspace) -> None:
    """Other combinations of these models and recipes."""
    assert "3 tests pass" in workspace.run("test", "//:more_tests")


def test_other_backends_compilers_are_not_fetched(workspace: Workspace) -> None:
    """Programs for portable kernels and XNNPACK use only the exporter's packages."""
    workspace.build(*_PROGRAMS)
    module = (workspace.module / "MODULE.bazel").read_text()
    layers = re.findall(r'backend_packages\(\s*name = "(\w+)"', module)
    assert "executorch_openvino" in layers
    fetched = [path.name for path in (workspace.base / "external").iterdir()]
    assert not [name for name in fetched if any(layer in name for layer in layers)]
    assert not [name for name in fetched if "executorch_sdk" in name]


def test_programs_are_programs(workspace: Workspace) -> None:
    """The file identifier of ExecuTorch programs and data files."""
    workspace.build("//:two_methods_separate")
    folder = workspace.folder / "bazel-bin"
    assert (folder / "two_methods_separate.pte").read_bytes()[4:8] == b"ET12"
    assert (folder / "two_methods_separate.ptd").read_bytes()[4:8] == b"FT01"


def test_bundles_of_modules_that_torch_does_not_copy(workspace: Workspace) -> None:
    """Expected outputs are those of a copy of the module."""
    workspace.run("build", "//:normed_int8", "--output_groups=bundled")
    bundle = workspace.folder / "bazel-bin" / "normed_int8.bpte"
    assert bundle.read_bytes()[4:8] == b"BP08"


def test_a_change_of_args_lowers_that_program_only(workspace: Workspace) -> None:
    """Other programs of the same sources do not change."""
    targets = ["//:pair1_xnnpack", "//:pair2_xnnpack", "//:classifier_own"]
    workspace.build(*targets)
    old, new = 'args = {"last": str(last)}', 'args = {"last": str(last if last > 1 else 9)}'
    workspace.replace("BUILD.bazel", old, new)
    try:
        ran = workspace.build(*targets)
    finally:
        workspace.replace("BUILD.bazel", new, old)
    assert ran == ["EtLink //:pair1_xnnpack", "EtLower //:pair1_xnnpack.lowering"]


def test_other_tolerances_run_no_action(workspace: Workspace) -> None:
    """They are words of the test: neither a lowering nor the eager model runs again."""
    tests = ["//:classifier_portable_test", "//:mixed_xnnpack_test"]
    workspace.build(*tests)
    old, new = "        atol = atol,\n", '        atol = "0.5",\n'
    workspace.replace("BUILD.bazel", old, new)
    try:
        ran = workspace.build(*tests)
    finally:
        workspace.replace("BUILD.bazel", new, old)
    assert ran == []


def test_a_comment_in_an_unrelated_model_builds_nothing(workspace: Workspace) -> None:
    """A program's inputs do not include sources that it does not use."""
    (workspace.folder / "other.py").write_text("import nets\n\n\ndef build(ctx):\n    return 1\n")
    model = 'et_model(name = "other", srcs = ["other.py"], entry_point = "other:build")\n'
    build = workspace.folder / "BUILD.bazel"
    build.write_text(build.read_text() + model)
    workspace.build(*_PROGRAMS)
    with open(workspace.folder / "other.py", "a") as out:
        out.write("# A comment.\n")
    assert workspace.build(*_PROGRAMS) == []


_SPLIT = """
def _platform(name):
    platform = "@rules_executorch//toolchains/platforms:" + name
    return {
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:platforms": [str(Label(platform))],
    }

def _split_impl(settings, attr):
    return {name: _platform(name) for name in ("android_arm64", "android_x86_64")}

_split = transition(
    implementation = _split_impl,
    inputs = [],
    outputs = ["//command_line_option:compilation_mode", "//command_line_option:platforms"],
)

def _split_programs_impl(ctx):
    return [DefaultInfo(files = depset(ctx.files.programs))]

split_programs = rule(
    implementation = _split_programs_impl,
    attrs = {"programs": attr.label_list(cfg = _split)},
)
"""


_SPLIT_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_binary")

split_programs(
    name = "split",
    programs = [":pair1_xnnpack"],
)

platform(
    name = "own_platform",
    constraint_values = [
        "@platforms//cpu:riscv64",
        "@platforms//os:none",
    ],
)

cc_binary(
    name = "plain",
    srcs = ["plain.cc"],
)
"""
_PLATFORMS = [
    "@rules_executorch//toolchains/platforms:linux_arm64",
    "@rules_executorch//toolchains/platforms:ios_arm64",
    "//:own_platform",
]


def test_configurations_share_a_lowering(workspace: Workspace) -> None:
    """Compilation modes, flags of compilers and platforms link again, with the same bytes."""
    (workspace.folder / "split.bzl").write_text(_SPLIT)
    build = workspace.folder / "BUILD.bazel"
    before = build.read_text()
    build.write_text(f'load(":split.bzl", "split_programs")\n{before}{_SPLIT_BUILD}')
    (workspace.folder / "plain.cc").write_text("int main() { return 0; }\n")
    try:
        workspace.build("//:pair1_xnnpack")
        program = (workspace.folder / "bazel-bin/pair1_xnnpack.pte").read_bytes()
        link = "EtLink //:pair1_xnnpack"
        platforms = [f"--platforms={platform}" for platform in _PLATFORMS]
        # Bazel itself keeps what flags of compilers and platforms have no effect on.
        for flag, ran in {
            "--compilation_mode=opt": [link],
            "--compilation_mode=dbg": [link],
            "--copt=-DOTHER": [],
            "--features=o": [],
            **dict.fromkeys(platforms, []),
        }.items():
            assert workspace.build(flag, "//:pair1_xnnpack") == ran, flag
            assert (workspace.folder / "bazel-bin/pair1_xnnpack.pte").read_bytes() == program
        assert workspace.build("//:split") == [link, link]
        # A C++ program of the same workspace has the machine's compiler, not these rules'.
        workspace.run("run", "//:plain")
        compiled = workspace.run("aquery", 'mnemonic("CppCompile", //:plain)')
        assert "plain.cc" in compiled
        assert "executorch_cc" not in compiled
    finally:
        build.write_text(before)


def test_paths_without_configurations(workspace: Workspace) -> None:
    """Actions find their files where `--experimental_output_paths=strip` puts them."""
    targets = ["//:two_methods_int8", "//:two_methods_separate"]
    workspace.build(*targets)
    programs = workspace.outputs()
    ran = workspace.build("--experimental_output_paths=strip", *targets)
    assert ran == [f"EtLink {target}" for target in targets]
    assert workspace.outputs() == programs


@pytest.mark.release
def test_flags_of_newer_versions(workspace: Workspace) -> None:
    """With what `--config=forward` sets, a user's workspace has the same programs."""
    lines = (workspace.module / ".bazelrc").read_text().splitlines()
    flags = [line.split()[1] for line in lines if re.match(r"\w+:forward ", line)]
    assert "--incompatible_auto_exec_groups" in flags
    workspace.build("//:pair1_xnnpack")
    programs = workspace.outputs()
    workspace.build(*flags, "//:pair1_xnnpack")
    assert workspace.outputs() == programs


def test_every_flag_of_newer_versions(workspace: Workspace) -> None:
    """Each flag of the kind is on in `--config=forward`, or .bazelrc says why not."""
    command = [workspace.module / "bazelw", *workspace.startup, "help", "build", "--long"]
    text = subprocess.run(
        command, cwd=workspace.folder, capture_output=True, text=True, check=True
    ).stdout
    flag = r'^  --\[no\](incompatible_\w+) \(a boolean; default: "false"\)'
    known = set(re.findall(flag, text, re.MULTILINE))
    assert "incompatible_auto_exec_groups" in known
    settings = (workspace.module / ".bazelrc").read_text()
    assert sorted(known - set(re.findall(r"--(?:no)?(incompatible_\w+)", settings))) == []


def test_link_settings_never_lower_again(workspace: Workspace) -> None:
    """Changing where weights are stored only links."""
    workspace.build("//:pair2_xnnpack")
    old = '        model = "pair%d" % last,\n'
    workspace.replace("BUILD.bazel", old, old + '        weights = "separate",\n')
    try:
        ran = workspace.build("//:pair2_xnnpack")
    finally:
        workspace.replace("BUILD.bazel", old + '        weights = "separate",\n', old)
    assert ran == ["EtLink //:pair2_xnnpack"]


def test_a_report_says_what_was_delegated(workspace: Workspace) -> None:
    """Percentages, and operators that are not delegated with the reason; the page has them, too."""
    workspace.build("--output_groups=report", "//:mixed_xnnpack")
    folder = workspace.folder / "bazel-bin"
    report = json.loads((folder / "mixed_xnnpack.report.json").read_text())
    found = report["delegation"]["forward"]
    layers, sums = 2 * 4 * (64 + 10) * 128, 4 * 128
    assert found["flops"] == layers + sums
    assert found["delegated"]["flops"] == layers
    assert [d["backend"] for d in found["delegates"]] == ["XnnpackBackend"] * 2
    [left] = [one for one in found["left"] if one["flops"]]
    assert (left["operator"], left["nodes"], left["flops"]) == ("aten.cumsum.default", 1, sums)
    assert left["why"][0]["reason"] == "no partitioner of the recipe takes this operator"
    page = (folder / "mixed_xnnpack.report.html").read_text()
    assert "aten.cumsum.default" in page and "99.3% of 76.3 kFLOP" in page
    assert report["accuracy"] == {}


def test_a_report_has_the_accuracy_of_quantization(workspace: Workspace) -> None:
    """By method and output."""
    workspace.build("--output_groups=report", "//:two_methods_int8")
    text = (workspace.folder / "bazel-bin/two_methods_int8.report.json").read_text()
    found = json.loads(text)["accuracy"]
    assert set(found) == {"batch", "single"}
    for method in found.values():
        [output] = method["outputs"]
        assert 15 < output["sqnr_db"] < 80


@pytest.mark.release
def test_what_can_be_run_beside_a_program(workspace: Workspace) -> None:
    """No pattern builds a companion or fetches its packages; it runs the built program."""
    workspace.run("build", "--nobuild", "//...")
    assert not [p for p in (workspace.base / "external").iterdir() if "executorch_cli" in p.name]
    program = "//:two_methods_int8"
    found = printed_json(workspace.run("run", f"{program}.evaluate", "--", "--json"))
    assert found["label"] == program
    assert found["recipe"].endswith("//backends/xnnpack:int8_static_per_channel")
    assert {row["method"] for row in found["outputs"]} == {"batch", "single"}
    assert all(15 < row["sqnr_db"] < 80 for row in found["outputs"])
    flags = ["--repeat", "2", "--save", "saved.json", "--html", "saved.html"]
    printed = workspace.run("run", f"{program}.benchmark", "--", *flags)
    assert "XnnpackBackend" in printed
    saved = json.loads((workspace.folder / "saved.json").read_text())
    assert saved["label"] == program
    trees = [events["modules"]["tree"] for events in saved["events"].values()]
    assert all(tree[0]["name"] == "" and tree[0]["ms"] > 0 for tree in trees)
    assert "XnnpackBackend" in (workspace.folder / "saved.html").read_text()


def test_et(workspace: Workspace) -> None:
    """`et` from the rules' repository, on files in the current directory."""
    workspace.build("//:two_methods_xnnpack", "//:two_methods_separate")
    et = ["@rules_executorch//tools:et", "--"]
    one, other = "bazel-bin/two_methods_xnnpack.pte", "bazel-bin/two_methods_separate.pte"
    found = printed_json(workspace.run("run", *et, "inspect", one, "--json"))
    assert {"batch", "single"} <= {m["name"] for m in found["methods"]}
    found = printed_json(workspace.run("run", *et, "inspect", other, "--json"))
    assert found["data_files"][0]["file"] == "two_methods_separate.ptd"
    assert found["missing"] == [] and found["needs"]["keys"] > 0
    assert "removed" in workspace.failed(*et, "diff", one, other, command="run")
    assert "what was built" in workspace.run("run", *et, "verify", other)
    ran = printed_json(workspace.run("run", *et, "run", other, "--method", "single", "--json"))
    assert ran["runs"][0]["outputs"][0]["shape"][0] == 1


def printed_json(printed: str) -> Any:
    """The JSON object that a program printed, without Bazel's own output."""
    return json.JSONDecoder().raw_decode(printed[printed.index("{") :])[0]


def test_too_little_delegated_is_an_error(workspace: Workspace) -> None:
    """After a plain build, and after a link: nothing is lowered again."""
    workspace.build("//:mixed_xnnpack")
    old, new = 'min_delegated = "95%"', 'min_delegated = "99.9%"'
    workspace.replace("BUILD.bazel", old, new)
    try:
        printed = workspace.failed("//:mixed_xnnpack")
    finally:
        workspace.replace("BUILD.bazel", new, old)
    assert (
        "//:mixed_xnnpack: min_delegated: too little is delegated, expected at least 99.9%."
        in printed
    )
    assert 'Method "forward": got 99.3% of its FLOPs. Not delegated:' in printed
    listed = "aten.cumsum.default × 1, 0.7%: no partitioner of the recipe takes this operator"
    assert f"{listed} (float32 [4, 128])" in printed
    workspace.replace("BUILD.bazel", old, 'min_delegated = "96%"')
    try:
        ran = workspace.build("//:mixed_xnnpack")
    finally:
        workspace.replace("BUILD.bazel", 'min_delegated = "96%"', old)
    assert ran == ["EtLink //:mixed_xnnpack"]


@pytest.mark.release
def test_a_disk_cache_holds_common_weights_once(workspace: Workspace, tmp_path: Path) -> None:
    """Two programs that differ in one layer, built into an empty cache that leaves links out."""
    cache = tmp_path / "cache"
    with (workspace.folder / "nets.py").open("a") as out:
        # Both are lowered again, in the running exporter, which `clean` would end.
        out.write("# One more comment.\n")
    unlinked = "--modify_execution_info=EtLink=+no-cache"
    workspace.build(unlinked, f"--disk_cache={cache}", "//:pair1_xnnpack", "//:pair2_xnnpack")
    stored = sum(p.stat().st_size for p in (cache / "cas").rglob("*") if p.is_file())
    common = 2 * 512 * 512 * 4
    program = (workspace.folder / "bazel-bin/pair1_xnnpack.pte").stat().st_size
    assert program > common
    assert common < stored < 1.3 * common
