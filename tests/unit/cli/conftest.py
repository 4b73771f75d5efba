"""Makes the tools importable, and writes files for `et`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "linker"), str(HERE.parents[2] / "tools")]

from commands import Et, Linked, Result  # noqa: E402
from etbundle.app import App, Program, add_programs, write  # noqa: E402
from etcli import cli  # noqa: E402
from etlink.json_file import write_json  # noqa: E402
from synthetic import link_with, program, shared_file  # noqa: E402


@pytest.fixture
def et(capsys: pytest.CaptureFixture[str]) -> Et:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Result:
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return run


@pytest.fixture
def linked(tmp_path: Path) -> Linked:
    """A program whose weight "embedding" lies in a shared file."""
    weights = {"embedding": b"e" * 64}
    base = program(tmp_path / "base", "//m:base", weights)
    (tmp_path / "p").mkdir()
    shared = shared_file(tmp_path / "p" / "f.ptd", "//m:f", base)
    task = program(tmp_path / "task", "//m:task", weights | {"head": b"h" * 8})
    wrote, path, _ = link_with(task, tmp_path / "p", shared)
    write_json(path.with_name("p.manifest.json"), wrote.manifest)
    return Linked(path, tmp_path / "p" / "f.ptd")


@pytest.fixture
def app(linked: Linked, tmp_path: Path) -> Path:
    """An app with that program."""
    fit = {"programs": {"//m:task": {"forward": {"operators": [], "backends": []}}}}
    app = App({"label": "//a:app", "platform": "linux_x86_64"}, fit | {"libraries": []})
    runner = tmp_path / "runner"
    runner.write_text('#!/bin/sh\necho "started with $*"\nexit 7\n')
    app.executables.add(app.add("runner", runner))
    entry = Program("//m:task", "p", linked.program, linked.program.with_name("p.manifest.json"))
    described = add_programs(app, [entry], [("//m:f", linked.shared)])
    folder = tmp_path / "app"
    folder.mkdir()
    write(app, {"binary": "runner", "libraries": [], "programs": described}, folder)
    return folder
