"""Runs `bazel run //toolchains/exporter:lock.update` with an installer that records."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lock_update
import pytest

_VERSIONS = {"executorch": "1.6.0", "torch": "2.14.0"}
_INSTALLER = """\
import json, os, pathlib, sys
pathlib.Path("said.json").write_text(json.dumps([os.getcwd(), *sys.argv[1:]]))
sys.exit(int(os.environ.get("FAILS", "0")))
"""


@pytest.fixture
def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the program that writes locks, with the locks beside it."""
    folder = tmp_path / "rules/exporter/lock"
    folder.mkdir(parents=True)
    (folder / "__main__.py").write_text(_INSTALLER)
    locks = folder.parent / "locks"
    locks.mkdir()
    (locks / "exporter_cp311.in").write_text("executorch\n")
    monkeypatch.setenv("RULES_EXECUTORCH_PYTHON", sys.executable)
    return folder


def run(installer: Path, workspace: Path, *locks: str, words: tuple[str, ...] = ()) -> int:
    workspace.mkdir(exist_ok=True)
    wanted = {"locks": list(locks), "versions": _VERSIONS}
    return lock_update.run(wanted, installer, workspace, list(words))


def said(workspace: Path) -> list[str]:
    return json.loads((workspace / "said.json").read_text())


def test_a_users_lock(installer: Path, tmp_path: Path) -> None:
    """It is made from the input beside it, with the versions of the tag; the input is made once."""
    user = tmp_path / "user"
    own = user / "locks/exporter.in"
    own.parent.mkdir(parents=True)
    own.write_text("executorch\nmine\n")
    locks = ("@@//locks:exporter.txt", "@@//:more.txt", "@@other~//:lock.txt")
    assert run(installer, user, *locks, words=("--upgrade",)) == 0
    assert said(user) == [
        os.fspath(user),
        "--version=executorch==1.6.0",
        "--version=torch==2.14.0",
        f"--input={own}",
        f"--input={user / 'more.in'}",
        "--upgrade",
    ]
    assert own.read_text() == "executorch\nmine\n"
    assert (user / "more.in").read_text() == "executorch\n"


def test_a_failure_leaves_nothing(
    installer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "3")
    user = tmp_path / "user"
    assert run(installer, user, "@@//:exporter.txt") == 3
    assert not (user / "exporter.in").exists()


def test_the_rules_own_repository(installer: Path, tmp_path: Path) -> None:
    """All locks: the installer finds them."""
    assert run(installer, tmp_path / "rules", "@@//exporter/locks:exporter_cp311.txt") == 0
    assert said(tmp_path / "rules")[1:] == [
        "--version=executorch==1.6.0",
        "--version=torch==2.14.0",
    ]


def test_no_lock_of_ones_own(installer: Path, tmp_path: Path) -> None:
    with pytest.raises(lock_update.LockError) as error:
        run(installer, tmp_path / "user", "@@rules_executorch~//toolchains:x.txt")
    message = str(error.value)
    assert "the exporter of this workspace has no lock of its own" in message
    assert 'got locks = ["@@rules_executorch~//toolchains:x.txt"]' in message
    assert 'locks = ["//:exporter.txt"]' in message


def test_no_python(installer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_EXECUTORCH_PYTHON", "python-that-is-not-there")
    with pytest.raises(lock_update.LockError, match="no Python 3.11 to write locks with"):
        run(installer, tmp_path / "user", "@@//:exporter.txt")
