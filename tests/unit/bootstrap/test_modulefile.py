"""MODULE.bazel files."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.modulefile import (
    Dependency,
    label_to_path,
    parse_module_file,
    read_module,
)

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
bazel_dep("positional", "1.0")
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
    module = parse_module_file(TEXT)
    assert module.name == "mine"
    assert module.dependencies == [
        Dependency("platforms"),
        Dependency("bazel_skylib"),
        Dependency("protobuf"),
        Dependency("stardoc", dev=True),
        Dependency("positional"),
    ]
    assert module.local_paths == {"near": "../near"}
    assert module.overridden == {"near", "far", "gitted"}
    assert module.includes == ["//build:more.MODULE.bazel"]


@pytest.mark.parametrize("text", ["", "# nothing\n", 'module(name = "x")'])
def test_hardly_anything(text: str) -> None:
    """A module that depends on nothing."""
    assert parse_module_file(text).dependencies == []


def test_syntax_error() -> None:
    """Bazel will tell of the error; it shall not be drowned in errors about modules."""
    module = parse_module_file(
        'bazel_dep(name = "a", version = "1")\n'
        'bazel_dep(name = "b", dev_dependency = True)\noops(\n'
    )
    assert module.dependencies == [Dependency("a"), Dependency("b", dev=True)]


@pytest.mark.parametrize(
    ("label", "path"),
    [
        ("//:x.MODULE.bazel", "x.MODULE.bazel"),
        ("//build/deps:x.MODULE.bazel", "build/deps/x.MODULE.bazel"),
        ("@//build:x.MODULE.bazel", "build/x.MODULE.bazel"),
    ],
)
def test_labels(label: str, path: str) -> None:
    """Files of the root module."""
    assert label_to_path(label, Path("/w")) == Path("/w") / path


def test_includes_are_followed(tmp_path: Path) -> None:
    """Also a chain of them, a circle, and one that is missing."""
    (tmp_path / "MODULE.bazel").write_text('module(name = "r")\ninclude("//:a.MODULE.bazel")\n')
    (tmp_path / "a.MODULE.bazel").write_text(
        'bazel_dep(name = "a", version = "1")\n'
        'include("//:a.MODULE.bazel")\n'
        'include("//:gone.MODULE.bazel")\n'
    )
    inputs: list[Path] = []
    module = read_module(tmp_path, inputs)
    assert module.name == "r"
    assert module.dependencies == [Dependency("a")]
    assert [path.name for path in inputs] == ["MODULE.bazel", "a.MODULE.bazel", "gone.MODULE.bazel"]


def test_no_file(tmp_path: Path) -> None:
    """A workspace without MODULE.bazel; that it is missing matters, too."""
    inputs: list[Path] = []
    assert read_module(tmp_path, inputs).dependencies == []
    assert inputs == [tmp_path / "MODULE.bazel"]
