"""MODULE.bazel files, and which modules are overridden: those in the dependency graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.modules import ModuleFile, Plan, make_plan, packaged_modules, read_module
from bootstrap.rcfile import UserOptions

TEXT = '''
"""A module."""

module(
    name = "mine",
    version = "1.0",
)

SKYLIB = "bazel_skylib"

bazel_dep(name = "platforms", version = "0.0.10")
bazel_dep(name = SKYLIB, version = "1.7.1")
bazel_dep(name = "protobuf", version = "29.0", repo_name = "com_google_protobuf")
bazel_dep(
    name = "stardoc",
    version = "0.7.2",
    dev_dependency = True,
)
bazel_dep(name = "no_edge", repo_name = None)
# bazel_dep(name = "commented", version = "1")

local_path_override(module_name = "near", path = "../near")
archive_override(module_name = "far", urls = ["https://example.org/far.tar.gz"])
git_override(module_name = "gitted", remote = "https://example.org/g.git", commit = "abc")
single_version_override(module_name = "platforms", version = "0.0.11")

ext = use_extension("//:ext.bzl", "ext")
[ext.tag(name = name) for name in ("bazel_dep", "b")]
use_repo(ext, "bazel_dep")
include("//build:more.MODULE.bazel")
'''


def test_parse() -> None:
    """Everything that matters, however it is written."""
    module = ModuleFile().parse(TEXT)
    assert module.name == "mine"
    assert module.dependencies == {
        "platforms": False,
        "bazel_skylib": False,
        "protobuf": False,
        "stardoc": True,
    }
    assert module.names() == ["platforms", "bazel_skylib", "protobuf"]
    assert module.local_paths == {"near": "../near"}
    assert module.overridden == {"near", "far", "gitted"}
    assert module.includes == ["//build:more.MODULE.bazel"]


@pytest.mark.parametrize("text", ["", "# nothing\n", 'module(name = "x")'])
def test_hardly_anything(text: str) -> None:
    """A module that depends on nothing."""
    assert ModuleFile().parse(text).dependencies == {}


@pytest.mark.parametrize(
    ("label", "path"),
    [
        ("//:x.MODULE.bazel", "x.MODULE.bazel"),
        ("//build/deps:x.MODULE.bazel", "build/deps/x.MODULE.bazel"),
        ("@//build:x.MODULE.bazel", "build/x.MODULE.bazel"),
    ],
)
def test_labels(tmp_path: Path, label: str, path: str) -> None:
    """Files of the root module."""
    (tmp_path / "MODULE.bazel").write_text(f'include("{label}")\n')
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text('bazel_dep(name = "a", version = "1")\n')
    assert read_module(tmp_path).names() == ["a"]


def test_includes_are_followed(tmp_path: Path) -> None:
    """Also a chain of them, a circle, and one that is missing."""
    (tmp_path / "MODULE.bazel").write_text('module(name = "r")\ninclude("//:a.MODULE.bazel")\n')
    (tmp_path / "a.MODULE.bazel").write_text(
        'bazel_dep(name = "a", version = "1")\n'
        'include("//:a.MODULE.bazel")\n'
        'include("//:gone.MODULE.bazel")\n'
    )
    module = read_module(tmp_path)
    assert module.name == "r"
    assert module.dependencies == {"a": False}
    assert [path.name for path in module.files] == [
        "MODULE.bazel",
        "a.MODULE.bazel",
        "gone.MODULE.bazel",
    ]


def test_no_file(tmp_path: Path) -> None:
    """A workspace without MODULE.bazel; that it is missing matters, too."""
    module = read_module(tmp_path)
    assert module.dependencies == {}
    assert module.files == [tmp_path / "MODULE.bazel"]


BAZEL_TOOLS = """
module(name = "bazel_tools")
bazel_dep(name = "rules_cc", version = "0.0.11")
bazel_dep(name = "zlib", version = "1.3")
"""

PACKAGED = {
    "rules/cc": 'module(name = "rules_cc")\nbazel_dep(name = "platforms", version = "1")\n'
    'bazel_dep(name = "stardoc", version = "1", dev_dependency = True)\n',
    "tools/platforms": 'module(name = "platforms")\n',
    "tools/stardoc": 'module(name = "stardoc")\nbazel_dep(name = "rules_java", version = "1")\n',
    "rules/java": 'module(name = "rules_java")\nbazel_dep(name = "abseil", version = "1")\n',
    "rules/shell": 'module(name = "rules_shell")\n',
    "tools/bazel_tools": 'module(name = "bazel_tools")\n',
}


class World:
    """A workspace, Debian's modules and Bazel's own module file."""

    def __init__(self, root: Path) -> None:
        """Writes them below a directory."""
        self.root = root
        for path, text in PACKAGED.items():
            self.write(f"prefix/usr/share/bazel/{path}/MODULE.bazel", text)
        self.tools = ModuleFile().parse(BAZEL_TOOLS)
        self.options = UserOptions(root / "w")

    def write(self, path: str, text: str) -> None:
        """Writes a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def plan(self, module_file: str | None) -> Plan:
        """The plan for a workspace with that MODULE.bazel."""
        if module_file is not None:
            self.write("w/MODULE.bazel", module_file)
        packaged = packaged_modules(self.root / "prefix")
        known = {"rules_executorch": self.root / "own"}
        return make_plan(self.tools, packaged, self.options, known)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One of each test's own."""
    return World(tmp_path)


def test_packaged_modules(world: World) -> None:
    """By the name in the file, not by the directory; Bazel's own is none of them."""
    found = packaged_modules(world.root / "prefix")
    assert sorted(found) == ["platforms", "rules_cc", "rules_java", "rules_shell", "stardoc"]


@pytest.mark.parametrize("text", [None, "", 'module(name = "x")\n'])
def test_what_bazel_brings(world: World, text: str | None) -> None:
    """The least: Bazel's own dependencies and theirs, without dev dependencies."""
    plan = world.plan(text)
    assert sorted(plan.packaged) == ["platforms", "rules_cc"]
    assert plan.stubs == {"zlib"}
    assert not plan.unavailable


def test_root_with_dev_dependencies(world: World) -> None:
    """The root's dev dependencies count, and what they lead to."""
    text = 'bazel_dep(name = "stardoc", version = "1", dev_dependency = True)\n'
    plan = world.plan(text)
    assert sorted(plan.packaged) == ["platforms", "rules_cc", "rules_java", "stardoc"]
    assert plan.stubs == {"zlib", "abseil"}


def test_dev_dependencies_ignored(world: World) -> None:
    """As with --ignore_dev_dependency."""
    world.options.ignore_dev = True
    plan = world.plan('bazel_dep(name = "stardoc", version = "1", dev_dependency = True)\n')
    assert sorted(plan.packaged) == ["platforms", "rules_cc"]


def test_local_path_override(world: World) -> None:
    """An overridden module is not Debian's; its own dependencies are in the graph."""
    world.write(
        "near/MODULE.bazel",
        'module(name = "rules_cc")\nbazel_dep(name = "rules_shell", version = "1")\n'
        'bazel_dep(name = "stardoc", version = "1", dev_dependency = True)\n',
    )
    plan = world.plan(
        'bazel_dep(name = "rules_cc", version = "1")\n'
        'local_path_override(module_name = "rules_cc", path = "../near")\n'
    )
    assert sorted(plan.packaged) == ["rules_shell"]
    assert world.root / "w/../near/MODULE.bazel" in plan.inputs


def test_overrides_of_others_do_not_count(world: World) -> None:
    """Only the root may override."""
    world.write(
        "near/MODULE.bazel",
        'module(name = "near")\nbazel_dep(name = "rules_shell", version = "1")\n'
        'local_path_override(module_name = "rules_shell", path = "../shell")\n',
    )
    plan = world.plan(
        'bazel_dep(name = "near")\nlocal_path_override(module_name = "near", path = "../near")\n'
    )
    assert "rules_shell" in plan.packaged


def test_user_override(world: World) -> None:
    """--override_module of the user's own rc file is left alone, and followed."""
    world.write("cc/MODULE.bazel", 'module(name = "rules_cc")\n')
    world.options.overrides["rules_cc"] = world.root / "cc"
    plan = world.plan("")
    assert "rules_cc" not in plan.packaged
    assert world.root / "cc/MODULE.bazel" in plan.inputs


def test_archive_override(world: World) -> None:
    """A module from elsewhere is not ours to override; of this project's the files are known."""
    world.write(
        "own/MODULE.bazel",
        'module(name = "rules_executorch")\nbazel_dep(name = "rules_shell", version = "1")\n',
    )
    plan = world.plan(
        'bazel_dep(name = "rules_executorch", version = "1")\n'
        'archive_override(module_name = "rules_executorch", urls = ["https://example.org"])\n'
        'bazel_dep(name = "far", version = "1")\n'
        'git_override(module_name = "far", remote = "https://example.org")\n'
    )
    assert "rules_shell" in plan.packaged
    assert not plan.unavailable


def test_unavailable(world: World) -> None:
    """A module that nobody has is no empty module: its user shall know."""
    plan = world.plan('bazel_dep(name = "gazelle", version = "1")\n')
    assert plan.unavailable == {"gazelle"}
    assert "gazelle" not in plan.stubs


def test_emptied(world: World) -> None:
    """An empty module that the workspace names itself is told of."""
    plan = world.plan('bazel_dep(name = "zlib", version = "1")\n')
    assert plan.emptied == {"zlib"}


def test_root_is_a_packaged_module(world: World) -> None:
    """A build of rules_cc itself does not get Debian's."""
    plan = world.plan('module(name = "rules_cc")\nbazel_dep(name = "platforms", version = "1")\n')
    assert sorted(plan.packaged) == ["platforms"]
