"""Makes the tools importable, and writes files for `et`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "linker"), str(HERE.parents[2] / "tools")]

from commands import Et, Linked, Result  # noqa: E402
from etbundle.app import MANIFEST, App, add_programs, describe, write  # noqa: E402
from etcli import cli  # noqa: E402
from etlink import manifest  # noqa: E402
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
    manifest.write(manifest.beside(path), wrote.manifest)
    return Linked(path, tmp_path / "p" / "f.ptd")


@pytest.fixture
def app(linked: Linked, tmp_path: Path) -> Path:
    """An app with that program."""
    app = App("//a:app")
    runner = tmp_path / "runner"
    runner.write_text('#!/bin/sh\necho "started with $*"\nexit 7\n')
    app.executables.add(app.add("runner", runner))
    entry = (linked.program, manifest.beside(linked.program))
    known = add_programs(app, [entry], [("//m:f", linked.shared)])
    folder = tmp_path / "app"
    folder.mkdir()
    copies = write(app, folder)
    manifest.write(folder / MANIFEST, describe(app, known, copies, binary="runner"))
    return folder
