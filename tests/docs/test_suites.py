"""`//tests:release` has what //... leaves out."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ROOT = Path(os.path.realpath("bazelw")).parent


def test_release_tests_are_in_the_suite() -> None:
    suite = (_ROOT / "tests/BUILD.bazel").read_text()
    found = []
    for file in sorted((_ROOT / "tests").rglob("BUILD.bazel")):
        package = file.parent.relative_to(_ROOT).as_posix()
        for rule in re.findall(r"^\w+_test\(\n.*?^\)", file.read_text(), re.MULTILINE | re.DOTALL):
            if re.search(r"^    release = True,$", rule, re.MULTILINE):
                [name] = re.findall(r'^    name = "(\w+)",$', rule, re.MULTILINE)
                found.append(f"//{package}:{name}_release")
    assert "//tests/docs:guides_test_release" in found
    assert [label for label in found if f'"{label}"' not in suite] == []
