"""`et reproduce` with a fake Bazel, whose outputs are the same or differ by the workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from etcli import cli

BAZEL = """#!/bin/sh
case "$1" in --output_base*) shift ;; esac
case "$1" in
  info) echo "$PWD/out" ;;
  build)
    [ ! -e broken ] || { echo "no such target" >&2; exit 1; }
    mkdir -p out/bin
    if [ -e same ]; then echo text > out/bin/a.txt; else echo "$PWD" > out/bin/a.txt; fi
    cp events.json "${2#--build_event_json_file=}" ;;
esac
"""
EVENTS = [
    {
        "id": {"namedSet": {"id": "0"}},
        "namedSetOfFiles": {"files": [{"name": "a.txt", "pathPrefix": ["bin"]}]},
    },
    {
        "id": {"targetCompleted": {"label": "//:a"}},
        "completed": {
            "success": True,
            "outputGroup": [{"name": "default", "fileSets": [{"id": "0"}]}],
        },
    },
]


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line in a workspace of its own."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MODULE.bazel").write_text("")
    (workspace / "events.json").write_text("\n".join(map(json.dumps, EVENTS)))
    (workspace / "bazelw").write_text(BAZEL)
    (workspace / "bazelw").chmod(0o755)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(workspace))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    return ["reproduce", "--directory=copies", "//:a"]


def test_the_same_bytes(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace" / "same").touch()
    assert cli.main([*arguments, "--save=result.json"]) == 0
    printed = capsys.readouterr()
    assert "//:a  bin/a.txt\n1 of 1 outputs are the same bytes in 2 builds.\n" in printed.out
    assert 'Building "elsewhere" …' in printed.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["outputs"]["bin/a.txt"]["label"] == "//:a"
    assert result["differences"] == {"elsewhere": []}
    assert not list((tmp_path / "copies").iterdir())


def test_other_bytes(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("different  (elsewhere)  //:a  bin/a.txt\n    line 1: ")
    assert cli.main([*arguments, "--json"]) == 1
    [difference] = json.loads(capsys.readouterr().out)["differences"]["elsewhere"]
    assert difference["reasons"][0].startswith("line 1: ")


def test_a_build_that_fails(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workspace" / "broken").touch()
    assert cli.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        "no such target",
        "",
        'error: The build "here" failed. Its output is above.',
    ]
