"""Execution platforms that differ from the machine: where actions run, and what a Mac chooses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, Workspace

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_cc//cc/toolchains:cc_toolchain.bzl", "cc_toolchain")
load("@rules_executorch//rules:defs.bzl", "et_runner_app")
load(":config.bzl", "config")

et_runner_app(name = "app")

cc_binary(name = "plain", srcs = ["main.cc"])

constraint_setting(name = "compilers", default_constraint_value = ":none")

constraint_value(name = "none", constraint_setting = ":compilers")

constraint_value(name = "some", constraint_setting = ":compilers")

platform(name = "a_without", parents = ["@platforms//host"])

platform(name = "b_with", constraint_values = [":some"], parents = ["@platforms//host"])

filegroup(name = "empty")

config(name = "config")

cc_toolchain(
    name = "compiler",
    all_files = ":empty",
    compiler_files = ":empty",
    dwp_files = ":empty",
    linker_files = ":empty",
    objcopy_files = ":empty",
    strip_files = ":empty",
    toolchain_config = ":config",
)

toolchain(
    name = "cc",
    exec_compatible_with = [":some"],
    toolchain = ":compiler",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
"""
_CONFIG = """
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "tool_path")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")

_TOOLS = ["ar", "cpp", "dwp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]

def _impl(ctx):
    return cc_common.create_cc_toolchain_config_info(
        abi_libc_version = "local",
        abi_version = "local",
        compiler = "gcc",
        ctx = ctx,
        host_system_name = "local",
        target_cpu = "k8",
        target_libc = "local",
        target_system_name = "local",
        tool_paths = [tool_path(name = tool, path = "/usr/bin/" + tool) for tool in _TOOLS],
        toolchain_identifier = "only",
    )

config = rule(implementation = _impl, provides = [CcToolchainConfigInfo])
"""
_MODULE = """
module(name = "user")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
bazel_dep(name = "rules_cc", version = "0.0.9")
bazel_dep(name = "platforms", version = "0.0.10")
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    def write(folder: Path, module: Path) -> None:
        folder.mkdir()
        (folder / "MODULE.bazel").write_text(_MODULE.format(module=module))
        (folder / "BUILD.bazel").write_text(_BUILD)
        (folder / "config.bzl").write_text(_CONFIG)
        (folder / "main.cc").touch()

    top = tmp_path_factory.mktemp("platforms")
    created = Workspace(top / "one", source=write, repositories=FOR_APPS)
    yield created
    created.close()


@pytest.mark.parametrize("target", ["plain", "app"])
def test_links(workspace: Workspace, target: str) -> None:
    """The first execution platform fits the exporter, the second one the compiler as well."""
    printed = workspace.run(
        "aquery",
        "--repo_env=BAZEL_DO_NOT_DETECT_CPP_TOOLCHAIN=1",
        "--extra_execution_platforms=//:a_without,//:b_with",
        "--extra_toolchains=//:cc",
        f'mnemonic("CppLink", //:{target})',
    )
    assert set(re.findall(r"^  Execution platform: .*:(\w+)$", printed, re.MULTILINE)) == {"b_with"}


def test_one_configuration(workspace: Workspace) -> None:
    """Tests run one library in one configuration, whatever compiles the rest of the build."""
    (workspace.folder / "net.py").write_text("def build(ctx):\n    pass\n")
    with (workspace.folder / "BUILD.bazel").open("a") as out:
        out.write(
            'load("@rules_executorch//rules:defs.bzl", "et_model", "et_program")\n'
            'load("@rules_executorch//rules:defs.bzl", "et_program_test")\n'
            'et_model(name = "net", srcs = ["net.py"], entry_point = "net:build")\n'
            'PORTABLE = "@rules_executorch//backends/portable:fp32"\n'
            'et_program(name = "p", model = ":net", recipe = PORTABLE)\n'
            'et_program_test(name = "t", program = ":p")\n'
        )
    no_compiler = workspace.folder.parent / "bin"
    no_compiler.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            link = no_compiler / tool.name
            if not re.search(r"(cc|gcc|g\+\+|c\+\+|clang|c[89]9)(-\d+)?$", tool.name):
                link.is_symlink() or link.symlink_to(tool)
    for path, mode in (("/usr/bin:/bin", "fastbuild"), (str(no_compiler), "dbg")):
        found = workspace.run(
            "cquery",
            f"--repo_env=PATH={path}",
            f"--compilation_mode={mode}",
            'filter("tools/runner:", kind(cc_library, deps(//:t)))',
        )
        labels = re.findall(r"tools/runner:(\w+) \((\w+)\)", found)
        assert {"entry", "parts"} <= {name for name, _ in labels}, found
        assert len({configuration for _, configuration in labels}) == 1, found


def test_on_a_mac(workspace: Workspace, tmp_path: Path) -> None:
    """With macOS on arm64 as the host's constraints, nothing that a build takes is for Linux.

    Only the analysis runs: what a Mac would take for itself, for tests and for an iPhone.
    """
    workspace.lay("examples/hello")
    with (workspace.folder / "BUILD.bazel").open("a") as out:
        out.write(
            'load("@rules_executorch//rules:defs.bzl", "et_runner_app")\n'
            'et_runner_app(name = "app", programs = [":net_xnnpack"])\n'
            'IOS = "@rules_executorch//toolchains/platforms:ios_arm64"\n'
            'et_runner_app(name = "ios", platform = IOS, programs = [":net_xnnpack"])\n'
        )
    workspace.run("build", "--nobuild", "//:app")
    constraints = '["@platforms//cpu:aarch64", "@platforms//os:osx"]'
    texts = {
        "host_platform": {
            "BUILD.bazel": 'exports_files(["constraints.bzl"])\n',
            "constraints.bzl": f"HOST_CONSTRAINTS = {constraints}\n",
        },
        "executorch_compiler": {
            "BUILD.bazel": "",
            "found.bzl": 'COMPILER_FOUND = False\nHOST_PLATFORM = "macos_arm64"\n',
        },
    }
    flags = []
    for name, files in texts.items():
        (real,) = (workspace.base / "external").glob(f"*[~+]{name}")
        (tmp_path / name).mkdir()
        for file, text in {"REPO.bazel": "", **files}.items():
            (tmp_path / name / file).write_text(text)
        flags.append(f"--override_repository={real.name}={tmp_path / name}")
    found = workspace.run("cquery", *flags, "deps(//...)")
    repositories = set(re.findall(r"[~+]executorch[~+](executorch_\w+)//", found))
    assert {"executorch_cc_macos_arm64", "executorch_runtime_macos_arm64"} <= repositories
    assert "executorch_runtime_ios_arm64" in repositories
    assert not {name for name in repositories if "linux" in name or "android" in name}
