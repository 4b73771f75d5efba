"""What Bazel shows where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from nested import Workspace

_BUILD = """
load("@rules_executorch//rules:defs.bzl", "et_exporter", "et_model", "et_program")

[
    et_model(name = name, srcs = ["broken.py"], entry_point = "broken.broken:" + name)
    for name in ["raises", "killed", "peeks"]
]

[
    et_program(
        name = name + "_program",
        model = name,
        recipe = "@rules_executorch//backends/portable:fp32",
    )
    for name in ["raises", "killed", "peeks"]
]
"""

_SOURCE = """
import os
from pathlib import Path


def raises(ctx):
    raise ValueError("my own problem")


def killed(ctx):
    os.kill(os.getpid(), 9)


def peeks(ctx):
    for folder in (Path(__file__).parent, Path.cwd(), *Path.cwd().parents):
        if (folder / "broken/secret.txt").exists() or (folder / "secret.txt").exists():
            raise ValueError("an undeclared file is there: " + str(folder))
    raise ValueError("nothing undeclared is there")
"""


@pytest.fixture(scope="module")
def broken(workspace: Workspace) -> Iterator[Workspace]:
    """The workspace with a package of programs that can't be built."""
    folder = workspace.folder / "broken"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(_BUILD)
    (folder / "broken.py").write_text(_SOURCE)
    (folder / "secret.txt").write_text("")
    yield workspace
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_failed_program(broken: Workspace) -> None:
    """Target, place and cause; others are built; nothing is left that looks like a program."""
    done = broken.attempt(
        "build", "--keep_going", "//broken:raises_program", "//broken:killed_program", "//lib"
    )
    assert done.returncode == 1
    said = 'ERROR: //broken:raises_program: failed in the stage "load": ValueError: my own problem'
    assert said in done.stderr
    assert 'broken/broken.py:7 in raises: raise ValueError("my own problem")' in done.stderr
    assert "was killed by signal 9 (SIGKILL)" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((broken.folder / "bazel-bin/broken").glob("*.pte")) == []


_SANDBOXED_WORKER = [
    "--strategy=EtLower=worker",
    "--worker_sandboxing",
    "--experimental_worker_multiplex_sandboxing",
]


@pytest.mark.parametrize(
    "flags", [["--strategy=EtLower=sandboxed"], _SANDBOXED_WORKER], ids=["process", "worker"]
)
def test_undeclared_files_are_not_there(broken: Workspace, flags: list[str]) -> None:
    """A model that looks for a file beside its source which it doesn't declare."""
    done = broken.attempt("build", *flags, "//broken:peeks_program")
    assert "ValueError: nothing undeclared is there" in done.stderr


def test_two_exporters(broken: Workspace) -> None:
    """The extension's tag, given twice."""
    module = broken.folder / "MODULE.bazel"
    kept = module.read_text()
    module.write_text(kept + "executorch.exporter()\nexecutorch.exporter()\n")
    try:
        done = broken.attempt("query", "@executorch_exporter//:all")
    finally:
        module.write_text(kept)
    assert done.returncode != 0
    assert "executorch.exporter() is given 2 times, wanted once" in done.stderr


def test_an_exporter_without_imports(broken: Workspace) -> None:
    """et_exporter's own check, before any rule is looked at."""
    build = broken.folder / "broken/BUILD.bazel"
    kept = build.read_text()
    build.write_text(
        kept
        + 'et_exporter(name = "e", interpreter = "i", stamp = "s", executorch_version = "1",'
        + ' torch_version = "1", light = ["l"])\n'
    )
    try:
        done = broken.attempt("query", "//broken:all")
    finally:
        build.write_text(kept)
    assert "et_exporter e: light and light_imports go together" in done.stderr
