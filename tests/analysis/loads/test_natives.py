"""Every rule and provider of a language is loaded: Bazel 9 itself brings none."""

from __future__ import annotations

import os
from pathlib import Path

import natives
import pytest

_ROOT = Path(os.path.realpath("bazelw")).parent


def test_everything_is_loaded() -> None:
    files = list(natives.starlark(_ROOT))
    names = {path.relative_to(_ROOT).as_posix() for path in files}
    assert {
        "rules/runner_app.bzl",
        "tests/e2e/apps/BUILD.bazel",
        "examples/hello/BUILD.bazel",
    } <= names
    faults = [
        f"{path.relative_to(_ROOT)}: {name}: got Bazel's own, expected a load of it. Add the load."
        for path in files
        for name in natives.unloaded(path.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('cc_library(name = "x")', ["cc_library"]),
        ('load("@rules_cc//cc:defs.bzl", "cc_library")\ncc_library(name = "x")', []),
        ("def f(dep):\n    return dep[CcInfo]", ["CcInfo"]),
        ('load("//:x.bzl", CcInfo = "Other")\nX = CcInfo', []),
        ("def f():\n    native.py_library(name = 'x')", ["native.py_library"]),
        ("def f():\n    native.filegroup(name = 'x')", []),
        ('"""Has sh_test(…)."""\nX = """\nsh_test(\n    name = "%s",\n)\n"""', ["sh_test"]),
        ('X = """\nsh_test(\n    srcs = {srcs: %d\n)\n"""', ["sh_test"]),
        ('X = """\nload("@s//:s.bzl", "sh_test")\nsh_test(name = "%{name}")\n"""', []),
    ],
)
def test_uses(text: str, expected: list[str]) -> None:
    assert natives.unloaded(text) == expected
