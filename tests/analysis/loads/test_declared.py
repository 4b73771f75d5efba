"""All names that are loaded from other modules exist in the versions that MODULE.bazel asks for."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import declared
import pytest

_ROOT = Path(os.path.realpath("bazelw")).parent
_RECORD = json.loads(declared.RECORD.read_text(encoding="utf-8"))
_LOADED = declared.loaded(_ROOT)


@pytest.mark.parametrize("module", sorted(_LOADED))
def test_names_exist(module: str) -> None:
    """In the version that this module asks for, and in those that come with other modules."""
    deps = (_ROOT / "MODULE.bazel").read_text(encoding="utf-8")
    asked = re.search(rf'^bazel_dep\(name = "{module}", version = "([^"]+)"\)', deps, re.MULTILINE)
    assert asked[1] in _RECORD[module], f"read the sources of {module} {asked[1]}: declared.py"
    for version, files in _RECORD[module].items():
        assert not declared.missing(_LOADED[module], files), f"{module} {version}"


def test_what_is_missing() -> None:
    wanted = {"//cc:defs.bzl": ["cc_library", "cc_new"], "//cc:gone.bzl": ["x"]}
    assert declared.missing(wanted, {"//cc:defs.bzl": ["cc_library"]}) == [
        "//cc:defs.bzl: cc_new",
        "//cc:gone.bzl: x",
    ]


def test_exported_names() -> None:
    text = 'load(":a.bzl", "a")\n_b = a\nB = a\nc, d = 1, 2\ndef e():\n    f = 1\n'
    assert declared.exported(text) == {"B", "c", "d", "e"}
