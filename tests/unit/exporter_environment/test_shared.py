"""Packages that one install leaves in the user's cache for the next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import INSTALLER, create, lay_files, snapshot
from install import shared


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/rules_executorch/environments"


def test_linked(lock: Path, tmp_path: Path, cache: Path) -> None:
    """The same description, files and times; they take no space, and nothing is fetched."""
    one = create(lock, tmp_path / "one", share=True, scripts=["mark"])
    (entry,) = cache.iterdir()
    for wheel in (tmp_path / "wheels").iterdir():
        wheel.unlink()
    two = create(lock, tmp_path / "two", share=True, scripts=["mark"])
    assert one == two
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")
    for part in ("site-packages", "lite", "bin"):
        times = {(tmp_path / name / part).stat().st_mtime_ns for name in ("one", "two")}
        assert len(times) == 1
    name = "site-packages/jinja2/__init__.py"
    files = [folder / name for folder in (tmp_path / "one", tmp_path / "two", entry)]
    assert len({file.stat().st_ino for file in files}) == 1
    assert files[0].stat().st_mode & 0o777 == 0o444
    assert (tmp_path / "two/bin/mark").stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("change", ["lock", "lite", "scripts", "Python", "installer"])
def test_another_environment(
    lock: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """Everything that an environment depends on is in its key."""
    create(lock, tmp_path / "one", share=True)
    settings: dict[str, object] = {}
    if change == "lock":
        lines = lock.read_text().splitlines()
        lock.write_text("\n".join(line for line in lines if "markupsafe" not in line) + "\n")
        settings["lite"] = False
    elif change == "lite":
        settings["lite"] = False
    elif change == "scripts":
        settings["scripts"] = ["mark"]
    elif change == "Python":
        monkeypatch.setattr(shared.sys, "version", "3.11.99")
    else:
        monkeypatch.setattr(shared, "_HERE", tmp_path / "other/install")
        (tmp_path / "other/locks").mkdir(parents=True)
        (tmp_path / "other/locks/prune.toml").touch()
    create(lock, tmp_path / "two", share=True, **settings)
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "description"])
def test_an_entry_that_was_changed(
    lock: Path,
    tmp_path: Path,
    cache: Path,
    damage: str,
) -> None:
    """It is dropped, and the packages are installed again."""
    expected = create(lock, tmp_path / "one", share=True)
    files = snapshot(tmp_path / "one")
    (entry,) = cache.iterdir()
    file = entry / "site-packages/jinja2/__init__.py"
    file.unlink()
    if damage == "changed":
        file.write_text("evil\n")
    elif damage != "missing":
        os.link(tmp_path / "one/site-packages/jinja2/__init__.py", file)
    if damage == "added":
        (entry / "site-packages/sitecustomize.py").touch()
    if damage == "description":
        (entry / "environment.json").unlink()
    assert create(lock, tmp_path / "two", share=True) == expected
    assert snapshot(tmp_path / "two") == files
    (entry,) = cache.iterdir()
    assert create(lock, tmp_path / "three", share=True) == expected


@pytest.mark.parametrize("obstacle", ["no links", "a file", "no home"])
def test_nothing_is_shared(
    lock: Path,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    obstacle: str,
) -> None:
    """The environment is the same; the cache gets no copy."""
    if obstacle == "a file":
        (tmp_path / "cache").touch()
    elif obstacle == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.delenv("HOME", raising=False)
    else:

        def link(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(shared.os, "link", link)
    assert create(lock, tmp_path / "one", share=True)["versions"]
    assert not cache.exists() or not list(cache.iterdir())


def test_at_once(lock: Path, tmp_path: Path, cache: Path) -> None:
    """Several installs of one environment: each is whole, and one entry stays."""
    files = lay_files(lock.parent / "wheels", tmp_path / "files")
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from install import environment, interpreter\n"
        "interpreter.copy = lambda source, output, origin: output.mkdir(parents=True)\n"
        f"request = environment.Request(locks=[Path({str(lock)!r})], share=True, lite=True)\n"
        f"request.files = Path({str(files)!r})\n"
        "request.output = Path(sys.argv[1])\n"
        "environment.create(request)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / f"e{n}")]) for n in range(4)
    ]
    assert [process.wait() for process in running] == [0] * 4
    first, *others = (snapshot(tmp_path / f"e{n}") for n in range(4))
    assert all(other == first for other in others)
    (entry,) = cache.iterdir()
    assert not entry.name.startswith(".")


def test_what_is_old_goes(lock: Path, tmp_path: Path, cache: Path) -> None:
    """Entries that nobody used for a month, and leftovers; workspaces keep their files."""
    create(lock, tmp_path / "one", share=True)
    (entry,) = cache.iterdir()
    (cache / ".new-left").mkdir()
    (cache / ".new-now").mkdir()
    old = time.time() - 40 * 24 * 3600
    for path in (entry, cache / ".new-left"):
        os.utime(path, (old, old))
    create(lock, tmp_path / "two", share=True, lite=False)
    left = {path.name for path in cache.iterdir()}
    assert ".new-now" in left
    assert not left & {entry.name, ".new-left"}
    assert len(left) == 2
    assert (tmp_path / "one/site-packages/jinja2/__init__.py").exists()


def test_the_rule_shares() -> None:
    rule = INSTALLER.parent / "environment.bzl"
    if not rule.exists():
        pytest.skip("the rule's file is not an input of this test")
    assert '"--share"' in rule.read_text()
