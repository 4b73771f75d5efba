"""The number of ideas stays below its bars."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import ideas
import pytest

_ROOT = Path(os.path.realpath("bazelw")).parent


@pytest.mark.parametrize(
    ("count", "bar", "example"),
    [
        (ideas.core_symbols, 18, "et_program"),
        (ideas.repository_rules, 12, "toolchains/debian/debian.bzl: debian_packages"),
        (ideas.mnemonics, 22, "EtLower"),
        (ideas.json_formats, 8, "manifest"),
        (ideas.lost_sources, 0, ""),
        (ideas.tool_packages, 10, "etlower"),
        (ideas.arrows_up, 0, ""),
        (ideas.over_walls, 0, ""),
    ],
)
def test_bars(count: Callable[[Path], list[str]], bar: int, example: str) -> None:
    counted = count(_ROOT)
    assert not example or example in counted
    assert len(counted) <= bar, f"{len(counted)} above {bar}:\n" + "\n".join(counted)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A module with one of each."""
    files = {
        "rules/defs.bzl": '"""Doc."""\nload("//rules:a.bzl", _et_a = "et_a")\net_a = _et_a\n',
        "rules/a.bzl": 'def f(ctx):\n    ctx.actions.run(\n        mnemonic = "EtA",\n    )\n',
        "rules/b.bzl": 'X = dict(mnemonic = "EtA")\nY = dict(mnemonic = "EtB")\n',
        "docs/reference/formats.md": (
            "# File formats\n\nThere are two.\n\n"
            "| format | file | written by | read by |\n|---|---|---|---|\n"
            "| index | `a.json` | `etlink/a.py` | `etlink` |\n"
            "| other | `b.json` | `toolchains/c.bzl` | `etlink/lost.py`, `runner/f.cc` |\n\n"
            "| other | table |\n|---|---|\n| x | y |\n"
        ),
        "toolchains/c.bzl": "_hub = repository_rule(implementation = _impl)\n",
        "tools/etlink/__init__.py": "",
        "tools/etlink/a.py": "from etlower import b\n",
        "tools/etlower/__init__.py": "",
        "tools/etlower/b.py": "def f():\n    import etfast.path\n",
        "tools/etcli/c.py": "from etfast import path\nfrom etlower.b import f\n",
        "tools/etbundle/d.py": "from etbundle import mobile\nimport json\n",
        "tools/etbundle/mobile/e.py": "from etbundle import d\n",
        "tools/runner/f.cc": "",
        "tools/empty/README.md": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_counts(tree: Path) -> None:
    assert ideas.core_symbols(tree) == ["et_a"]
    assert ideas.repository_rules(tree) == ["toolchains/c.bzl: _hub"]
    assert ideas.mnemonics(tree) == ["EtA", "EtB"]
    assert ideas.json_formats(tree) == ["index", "other"]
    assert ideas.lost_sources(tree) == ["etlink/lost.py"]
    assert ideas.tool_packages(tree) == ["etbundle", "etcli", "etlink", "etlower", "runner"]
    assert ideas.arrows_up(tree) == [
        "tools/etlink/a.py: etlower.b",
        "tools/etlower/b.py: etfast.path",
    ]
    assert ideas.over_walls(tree) == [
        "tools/etbundle/d.py: etbundle.mobile",
        "tools/etlower/b.py: etfast.path",
    ]
