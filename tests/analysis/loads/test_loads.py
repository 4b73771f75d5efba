"""Loads of .bzl and BUILD files: folders know those below them, and packages form no cycle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

_CORE = ("rules", "toolchains")

# A folder to those that its files may load from, beside other modules' and the folder itself. A
# folder in another one of this table has a wall around it: the outer one loads from it only if
# its entry says so.
_ALLOWED = {
    "toolchains": ("toolchains/android",),
    "toolchains/android": ("toolchains",),
    "rules": ("toolchains",),
    "rules/llm": (*_CORE, "rules/mobile"),
    "rules/mobile": (*_CORE, "toolchains/android"),
    "rules/tuning": _CORE,
    "tools": (*_CORE, "rules/mobile", "toolchains/android"),
    "backends": _CORE,
}
_DEFS = sorted(folder for folder in _ALLOWED if folder.split("/")[0] == "rules")

# Text of BUILD files in .bzl files counts, too.
_LOAD = re.compile(r'^load\(\s*"(?:@rules_executorch)?((?://|:)[^"]+)"', re.MULTILINE)


def loads(path: Path) -> list[str]:
    """Labels in a file's load statements, from this repository: "//rules:defs.bzl".

    Args:
      path: of a .bzl or BUILD file.
    """
    labels = _LOAD.findall(path.read_text(encoding="utf-8"))
    return [f"//{path.parent.as_posix()}{x}" if x.startswith(":") else x for x in labels]


def violations(loaded: Mapping[str, list[str]]) -> list[str]:
    """Loads of folders that a file's own may not know: "toolchains/x.bzl loads //rules:defs.bzl".

    Args:
      loaded: path of a file to the labels that it loads.
    """
    return [
        f"{path} loads {label}"
        for path, labels in sorted(loaded.items())
        for label in labels
        if not _allowed(_folder(path), _folder(label[2:].replace(":", "/")))
    ]


def _folder(path: str) -> str:
    """The innermost folder of the table that a file is in, or else its first folder."""
    parents = [parent.as_posix() for parent in Path(path).parents]
    return next((parent for parent in parents if parent in _ALLOWED), path.split("/")[0])


def _allowed(folder: str, other: str) -> bool:
    return folder not in _ALLOWED or other in (folder, *_ALLOWED[folder])


def cycle(loaded: Mapping[str, list[str]]) -> list[str]:
    """Packages whose .bzl files load each other in a circle; empty: there is no circle.

    Args:
      loaded: path of a file to the labels that it loads.
    """
    edges: dict[str, set[str]] = {}
    for path, labels in loaded.items():
        if path.endswith(".bzl"):
            package = path.rpartition("/")[0]
            others = {label[2:].partition(":")[0] for label in labels} - {package}
            edges.setdefault(package, set()).update(others)
    done: set[str] = set()
    for package in sorted(edges):
        circle = _cycle_from(package, edges, [], done)
        if circle:
            return circle
    return []


def _cycle_from(
    package: str, edges: Mapping[str, set[str]], above: list[str], done: set[str]
) -> list[str]:
    if package in above:
        return [*above[above.index(package) :], package]
    if package in done:
        return []
    for other in sorted(edges.get(package, ())):
        circle = _cycle_from(other, edges, [*above, package], done)
        if circle:
            return circle
    done.add(package)
    return []


def files() -> Iterator[Path]:
    for folder in sorted({folder.split("/")[0] for folder in _ALLOWED}):
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in (".bzl", ".BUILD") or path.name == "BUILD.bazel":
                yield path


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    return {path.as_posix(): loads(path) for path in files()}


def test_folders_know_only_those_below(loaded: dict[str, list[str]]) -> None:
    assert violations(loaded) == []


def test_packages_form_no_cycle(loaded: dict[str, list[str]]) -> None:
    assert cycle(loaded) == []


def test_all_files_are_read(loaded: dict[str, list[str]]) -> None:
    """The test has each file of these folders that another one loads."""
    labels = {label for labels in loaded.values() for label in labels}
    paths = {label[2:].replace(":", "/") for label in labels}
    assert sorted(path for path in paths - set(loaded) if path.split("/")[0] in _ALLOWED) == []
    assert {"rules/defs.bzl", "toolchains/extensions.bzl", "toolchains/runtime/wheel.BUILD"} <= set(
        loaded
    )


@pytest.mark.parametrize("folder", _DEFS)
def test_everything_public_is_in_defs(folder: str) -> None:
    """Each file of a folder has one rule or macro, which bears the file's name."""
    defined = []
    for path in sorted(Path(folder).glob("*.bzl")):
        names = [name for name in _public(path) if not name.endswith(("_rule", "_rule_test"))]
        if path.name not in ("defs.bzl", "providers.bzl"):
            assert names == ["et_" + path.stem], path
            defined += names
    exported = _public(Path(folder, "defs.bzl"))
    assert set(defined) <= set(exported)
    assert exported == sorted(exported)


def _public(path: Path) -> list[str]:
    """Public names of functions and rules in a file."""
    names = []
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign):
            names.append(ast.unparse(statement.targets[0]))
    return [name for name in names if not name.startswith("_")]


def test_a_violation_and_a_cycle_are_named() -> None:
    example = {
        "rules/a.bzl": ["//toolchains/x:b.bzl"],
        "toolchains/x/b.bzl": ["//toolchains/y:c.bzl"],
        "toolchains/y/c.bzl": ["//rules:a.bzl"],
    }
    assert violations(example) == ["toolchains/y/c.bzl loads //rules:a.bzl"]
    assert cycle(example) == ["rules", "toolchains/x", "toolchains/y", "rules"]


def test_the_core_ignores_what_is_behind_walls() -> None:
    example = {
        "rules/a.bzl": ["//rules/private:b.bzl", "//rules/llm/private:c.bzl"],
        "rules/llm/d.bzl": ["//rules/mobile:e.bzl", "//rules:a.bzl"],
        "rules/mobile/e.bzl": ["//rules/llm:d.bzl"],
        "rules/private/b.bzl": ["//toolchains/android:f.bzl"],
    }
    assert violations(example) == [
        "rules/a.bzl loads //rules/llm/private:c.bzl",
        "rules/mobile/e.bzl loads //rules/llm:d.bzl",
        "rules/private/b.bzl loads //toolchains/android:f.bzl",
    ]


def test_loads_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("x/BUILD.bazel")
    path.parent.mkdir()
    path.write_text(
        'load("@rules_executorch//rules:defs.bzl", "a")\nload("@skylib//x:y.bzl", "b")\n'
        'load(\n    ":c.bzl",\n    d = "c",\n)\nBACKENDS = %{backends}\n'
    )
    assert loads(path) == ["//rules:defs.bzl", "//x:c.bzl"]
