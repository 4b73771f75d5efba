"""launch.py: the import path of our programs. Needs no torch."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
LAUNCH = Path(__file__).absolute().parents[3] / "tools" / "launch.py"


def launch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs launch.py as actions do."""
    command = [sys.executable, "-B", "-s", "-P", str(LAUNCH), *(str(a) for a in arguments)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_module_runs_with_its_arguments_and_paths(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "shown.py").write_text(
        "import sys, helper\nprint(__name__, sys.argv[1:], helper.where)"
    )
    (tmp_path / "two" / "helper.py").write_text("where = 'two'")
    # A package must not hide a module of the standard library.
    (tmp_path / "two" / "json.py").write_text("raise SystemExit('hidden')")
    done = launch("--path", tmp_path / "one", "--path", tmp_path / "two", "shown", "a", "--path")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "__main__ ['a', '--path'] two\n"


def test_packages_run_their_main_module_and_hand_on_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__init__.py").touch()
    (tmp_path / "tool" / "__main__.py").write_text("import json, sys; sys.exit(5)")
    assert launch("--path", tmp_path, "tool").returncode == 5


@pytest.mark.parametrize("arguments", [[], ["--path"], ["--path", "x"]])
def test_without_a_module_it_says_how_to_use_it(arguments: list[str]) -> None:
    done = launch(*arguments)
    assert done.returncode == 1
    if arguments != ["--path"]:
        assert done.stderr == "usage: launch.py --path DIR MODULE [ARGUMENT …]\n"


@pytest.fixture
def existing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """launch.existing in a sandbox whose interpreter is a link to a file of the repository."""
    real = tmp_path / "repository" / "python" / "bin" / "python3"
    link = tmp_path / "sandbox" / "repository" / "python" / "bin" / "python3"
    for file in (real, link):
        file.parent.mkdir(parents=True)
    real.touch()
    link.symlink_to(real)
    (tmp_path / "repository" / "site").mkdir()
    (tmp_path / "sandbox" / "repository" / "here").mkdir()
    monkeypatch.setattr(sys, "executable", str(link))
    return runpy.run_path(str(LAUNCH))["existing"]


def test_folders_that_a_sandbox_left_out_are_those_beside_the_real_interpreter(
    existing: Callable[[str], str], tmp_path: Path
) -> None:
    sandbox = tmp_path / "sandbox" / "repository"
    assert existing(str(sandbox / "here")) == str(sandbox / "here")
    assert existing(str(sandbox / "site")) == str(tmp_path / "repository" / "site")
    assert existing("/elsewhere/site") == "/elsewhere/site"
