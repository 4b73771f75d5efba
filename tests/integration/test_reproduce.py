"""Other paths, hash seeds, jobs and sandboxes give the same bytes; differences are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import etcli
import pytest
from etcli.reproduce import checkout
from etcli.reproduce.build import Build, Output
from etcli.reproduce.command import HERMETIC_FLAGS, SECOND_FLAGS, compare

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace, outer_overrides

_TARGETS = "//tests/integration/reproduce:targets"
_CLOCK = """
import time

import nets
import torch


def build(ctx):
    net = nets.Classifier(64)
    with torch.no_grad():
        net.last.bias[0] = time.time() % 1000
    return net, (torch.ones(1, 64),)
"""


@pytest.mark.release
def test_one_program_of_each_backend_and_one_app_of_each_platform(tmp_path: Path) -> None:
    """The outer build's outputs against those of a copy of its checkout.

    There each action sees its inputs and the system's folders: no home, no network, no environment.
    """
    module = Path(os.path.realpath("bazelw")).parent
    copy = tmp_path / "somewhere" / "else"
    checkout.copy(module, copy)
    overrides = outer_overrides(tmp_path / "repositories")
    build = Build(
        "elsewhere",
        copy,
        str(copy / "bazelw"),
        tmp_path / "base",
        # Three jobs instead of one: that is another number, too, and takes less time.
        (*SECOND_FLAGS, *HERMETIC_FLAGS, "--jobs=3", *overrides),
    )
    try:
        there = build.run([_TARGETS], tmp_path / "events.json")
        here = {name: output for name, output in _outer_outputs() if name in there}
        programs = [n for n in here if "/tests/backends/" in n and n.endswith(".pte")]
        assert len(programs) == 15
        assert len([name for name in here if name.endswith("/runner")]) == 7
        assert len([name for name in here if name.endswith((".tar.zst", ".zip"))]) == 7
        assert [d.name + ": " + "; ".join(d.reasons) for d in compare(here, there)] == []
    finally:
        build.end()


def _outer_outputs() -> Iterator[tuple[str, Output]]:
    """The outer build's files in the test's runfiles, by path below its execution root."""
    for folder in ("tests/backends", "tests/integration/reproduce"):
        # Apps are folders, and Bazel names the files of them.
        for directory, _, names in os.walk(folder, followlinks=True):
            for name in names:
                real = os.path.realpath(os.path.join(directory, name))
                if "/bazel-out/" in real:
                    yield "bazel-out/" + real.split("/bazel-out/")[1], Output(name, Path(real))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(tmp_path_factory.mktemp("reproduce") / "one", compiled_once=False)
    yield new_workspace
    new_workspace.close()


def reproduce(workspace: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`et reproduce`, as `bazel run` starts it."""
    root = Path(etcli.__file__).parent.parent
    wrapper = workspace.folder.parent / "bazel"
    startup = " ".join(workspace.startup)
    own_base = f"case $1 in --output_base*) ;; *) set -- {startup} $@ ;; esac"
    wrapper.write_text(f'#!/bin/sh\n{own_base}\nexec {workspace.module}/bazelw "$@"\n')
    wrapper.chmod(0o755)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "etcli",
            "reproduce",
            f"--bazel={wrapper}",
            f"--directory={workspace.folder.parent / 'copies'}",
            *(f"--flag={flag}" for flag in workspace.overrides),
            *arguments,
        ],
        env={
            **os.environ,
            "BUILD_WORKSPACE_DIRECTORY": str(workspace.folder),
            "PYTHONPATH": os.pathsep.join([str(root), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.release
def test_same(workspace: Workspace, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = reproduce(workspace, f"--save={result}", "//:pair1_xnnpack", "//:two_methods_separate")
    assert done.returncode == 0, done.stdout + done.stderr
    result_json = json.loads(result.read_text())
    names = sorted(name.split("/")[-1] for name in result_json["outputs"])
    assert names == ["pair1_xnnpack.pte", "two_methods_separate.ptd", "two_methods_separate.pte"]
    assert result_json["differences"] == {"elsewhere": []}
    assert "3 of 3 outputs are the same bytes in 2 builds." in done.stdout
    assert not any((workspace.folder.parent / "copies").iterdir())


@pytest.mark.release
def test_a_model_that_looks_at_the_clock(workspace: Workspace, tmp_path: Path) -> None:
    """Beside others, which are the same."""
    (workspace.folder / "clock.py").write_text(_CLOCK)
    build = workspace.folder / "BUILD.bazel"
    build.write_text(
        build.read_text()
        + 'et_model(name = "clock", srcs = ["clock.py", "nets.py"], deps = ["//lib:layers"], '
        + 'entry_point = "clock:build")\n'
        + 'et_program(name = "clock_portable", model = ":clock", '
        + 'recipe = "@rules_executorch//backends/portable:fp32")\n'
    )
    result = tmp_path / "result.json"
    targets = ["//:clock_portable", "//:pair1_xnnpack", "//:two_methods_separate"]
    done = reproduce(workspace, f"--save={result}", *targets)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("different")]
    assert "(elsewhere)  @@//:clock_portable" in line or "(elsewhere)  //:clock_portable" in line
    assert "constant" in done.stdout
    assert "(float32 [" in done.stdout
    assert "3 of 4 outputs are the same bytes" in done.stdout
    result_json = json.loads(result.read_text())
    names = sorted(name.split("/")[-1] for name in result_json["outputs"])
    programs = ["pair1_xnnpack.pte", "two_methods_separate.ptd", "two_methods_separate.pte"]
    assert names == ["clock_portable.pte", *programs]
    assert len(result_json["differences"]["elsewhere"]) == 1
    assert not any((workspace.folder.parent / "copies").iterdir())


def test_a_build_that_fails(workspace: Workspace) -> None:
    done = reproduce(workspace, "//:nothing_of_that_name")
    assert done.returncode == 2
    assert 'The build "here" failed.' in done.stderr
    assert "no such target" in done.stderr
