"""The module as a dependency: out of its release archive, under another name, of the root and of a
module that isn't the root, and with another version of ExecuTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import archive
import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, STARTUP, Workspace, outer_overrides, remove

_USER = """\
module(name = "user")

bazel_dep(name = "rules_executorch", version = "{version}", repo_name = "et")
archive_override(
    module_name = "rules_executorch",
    integrity = "{integrity}",
    strip_prefix = "rules_executorch-{version}",
    urls = ["file://{path}"],
)

bazel_dep(name = "team_models", version = "1.0")
local_path_override(
    module_name = "team_models",
    path = "team",
)
"""
_TEAM = """\
module(
    name = "team_models",
    version = "1.0",
)

bazel_dep(name = "rules_executorch", version = "{version}", repo_name = "their_rules")
"""
_BUILD = """\
load("@{rules}//rules:defs.bzl", "et_model", "et_program", "et_program_test")

et_model(
    name = "net",
    srcs = ["{name}.py"],
    entry_point = "{name}:build",
)

et_program(
    name = "{name}",
    model = ":net",
    recipe = "@{rules}//backends/portable:fp32",
)

et_program_test(
    name = "{name}_test",
    program = ":{name}",
)
"""
_NET = """\
import torch


def build(ctx):
    return torch.nn.Linear(4, {width}), (torch.ones(1, 4),)
"""


def released(workspace: Path, folder: Path) -> Path:
    """The archive of the module under test as it stands, committed or not.

    Its files go into a repository of their own, and never into the checkout's, which may be
    read-only, without a commit, or in use by another git.
    """
    repository = folder.with_suffix(".git")
    subprocess.run(["git", "init", "--quiet", "--bare", str(repository)], check=True)
    archive.git(repository, f"--work-tree={workspace}", "add", "--all", str(workspace))
    tree = archive.git(repository, "write-tree").decode().strip()
    return archive.make(repository, folder, tree)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    top = tmp_path_factory.mktemp("dependency")

    def write(folder: Path, module: Path) -> None:
        path = released(module, top / "dist")
        version = path.name.removeprefix("rules_executorch-").removesuffix(".tar.gz")
        given = {"version": version, "integrity": archive.integrity(path), "path": path}
        for place, text, rules, name in (
            (folder, _USER, "et", "mine"),
            (folder / "team", _TEAM, "their_rules", "theirs"),
        ):
            place.mkdir()
            (place / "MODULE.bazel").write_text(text.format(**given))
            (place / "BUILD.bazel").write_text(_BUILD.format(rules=rules, name=name))
            (place / f"{name}.py").write_text(_NET.format(width=len(name)))

    created = Workspace(top / "one", source=write, repositories=FOR_APPS)
    (created.folder / ".bazelignore").write_text("team\n")
    yield created
    created.close()


def test_what_a_release_holds(workspace: Workspace) -> None:
    """The archive contains the examples, and neither tests nor settings of this repository."""
    (path,) = (workspace.folder.parent / "dist").iterdir()
    with tarfile.open(path) as opened:
        names = [member.name.split("/", 1)[1] for member in opened.getmembers()]
        top = path.name.removesuffix(".tar.gz")
        hello = opened.extractfile(f"{top}/examples/hello/MODULE.bazel").read().decode()
    assert {"LICENSE", "MODULE.bazel", "README.md", "bazelw", "rules/defs.bzl"} <= set(names)
    assert not [name for name in names if name.startswith("tests")]
    assert not [name for name in names if name.startswith((".ci", ".bcr", ".git"))]
    assert path.stat().st_size < 5_000_000
    version = top.removeprefix("rules_executorch-")
    assert f'bazel_dep(name = "rules_executorch", version = "{version}")' in hello


def test_workspaces_name_the_tested_bazel(workspace: Workspace) -> None:
    """Without a .bazelversion, Bazelisk takes the newest, with which nothing was tested."""
    module = workspace.module
    expected = (module / ".bazelversion").read_text()
    folders = [
        path.parent
        for top in ("examples", "tests/e2e")
        for path in module.glob(f"{top}/*/MODULE.bazel")
    ]
    assert len(folders) > 10
    assert {(folder / ".bazelversion").read_text() for folder in folders} == {expected}


def test_the_archive_is_a_workspace(workspace: Workspace, tmp_path: Path) -> None:
    """Unpacked, it builds its own models, apps and tools, and none of its files needs another."""
    (path,) = (workspace.folder.parent / "dist").iterdir()
    subprocess.run(["tar", "-xzf", str(path), "-C", str(tmp_path)], check=True)
    (folder,) = tmp_path.iterdir()
    overrides = outer_overrides(tmp_path / "repositories")
    command = ["./bazelw", f"--output_base={tmp_path / 'base'}", *STARTUP]
    try:
        for words in (
            ["query", *overrides, "--output=package", "//..."],
            ["build", *overrides, "--nobuild", "//models:llama_xnnpack", "//models:llama_chat"],
        ):
            done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert words[0] == "build" or "rules\n" in done.stdout
    finally:
        subprocess.run([*command, "shutdown"], cwd=folder, check=False, capture_output=True)
        remove(tmp_path / "base")


@pytest.mark.release
def test_programs_of_both_modules(workspace: Workspace) -> None:
    """Programs of the root and its dependency run, each with its own name of the rules."""
    printed = workspace.run("test", "//...", "@team_models//:all")
    assert "2 tests pass" in printed
    folder = workspace.folder / "bazel-bin"
    assert (folder / "mine.pte").read_bytes()[4:8] == b"ET12"
    (fetched,) = (workspace.base / "external").glob("rules_executorch[~+]")
    assert fetched.resolve() != workspace.module


@pytest.mark.release
def test_another_version_of_executorch(workspace: Workspace) -> None:
    """One attribute and one command change it; before that, an error says what is missing."""
    said = workspace.failed("@et//toolchains/exporter:lock.update", command="run")
    assert "MODULE.bazel: the exporter of this workspace has no lock of its own: got " in said
    with open(workspace.folder / "MODULE.bazel", "a") as out:
        out.write(
            'executorch = use_extension("@et//toolchains:extensions.bzl", "executorch")\n'
            'executorch.exporter(executorch_version = "1.4.1", locks = ["//:exporter.txt"])\n'
        )
    workspace.run("run", "@et//toolchains/exporter:lock.update")
    lock = (workspace.folder / "exporter.txt").read_text()
    assert "\nexecutorch==1.4.1 \\\n    --hash=sha256:" in lock
    assert "\ntorch==2.13.0 \\\n    --hash=sha256:" in lock
    assert "@rules_executorch//toolchains/exporter:lock.update" in lock.splitlines()[1]
    # `et` was locked with our versions of other packages.
    ours = (workspace.module / "toolchains/exporter/locks/exporter_cp311.txt").read_text()
    assert _pins(lock) - _pins(ours) == {"executorch==1.4.1"}
    assert (workspace.folder / "exporter.in").exists()
    workspace.replace("MODULE.bazel", "1.4.1", "1.5.0")
    said = workspace.failed(
        "@et//toolchains/runtime", "--platforms=@et//toolchains/platforms:linux_arm64"
    )
    assert "executorch: version in the locks: got 1.4.1, expected 1.5.0." in said


def _pins(lock: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==\S+", lock, re.MULTILINE))
