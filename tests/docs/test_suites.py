"""`//tests:release` has what //... leaves out."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ROOT = Path(os.path.realpath("bazelw")).parent


def _tests() -> dict[str, str]:
    """Labels of tests that BUILD files name, and the text of their rules."""
    found = {}
    for file in sorted((_ROOT / "tests").rglob("BUILD.bazel")):
        package = file.parent.relative_to(_ROOT).as_posix()
        rules = re.findall(r"^\w+_test\(\n.*?^\)", file.read_text(), re.MULTILINE | re.DOTALL)
        for rule in rules:
            for name in re.findall(r'^    name = "(\w+)",$', rule, re.MULTILINE):
                found[f"//{package}:{name}"] = rule
    return found


def _is_in(label: str, suite: str) -> bool:
    """Tells whether the suite, or the one of the test's package that it includes, has the test."""
    package, name = label[2:].split(":")
    own = (_ROOT / package / "BUILD.bazel").read_text()
    included = f'"//{package}:release"' in suite or package.startswith("tests/backends/")
    return f'"{label}"' in suite or (included and f'        ":{name}",\n' in own)


def test_what_is_left_out_is_in_the_suite() -> None:
    """Tests with `release = True` under their second name, and those with the tag "manual"."""
    suite = (_ROOT / "tests/BUILD.bazel").read_text()
    tests = _tests()
    some = [f"{name}_release" for name, rule in tests.items() if "\n    release = True,\n" in rule]
    whole = [
        name
        for name, rule in tests.items()
        if '"manual"' in "".join(re.findall(r"\n    tags = (\[[^]]*\]),\n", rule))
    ]
    assert "//tests/docs:guides_test_release" in some
    assert {"//tests/integration/remote:remote_test", "//tests/unit/report:browser_test"} <= {
        *whole
    }
    assert [label for label in some + whole if not _is_in(label, suite)] == []
