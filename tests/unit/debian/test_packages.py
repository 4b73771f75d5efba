"""Debian packages are those that are pinned, or the user is told what to do."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from debian import packages
from debian.command import ActionableError


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A file that is named as apt names a package."""
    path = tmp_path / "libx++6_1%3a12.2-1_all.deb"
    path.write_bytes(b"contents")
    return path


def test_right_hash(archive: Path) -> None:
    """A name is found with its version's epoch and the plus signs of C++."""
    packages.check_hashes([archive], {"libx++6": hashlib.sha256(b"contents").hexdigest()})


def test_other_contents(archive: Path) -> None:
    """The message has the file with its version, both hashes and what to do."""
    with pytest.raises(ActionableError) as caught:
        packages.check_hashes([archive], {"libx++6": "0" * 64})
    for part in (archive.name, "0" * 64, hashlib.sha256(b"contents").hexdigest()):
        assert part in caught.value.reason
    assert "Name the version" in " ".join(caught.value.remedies)


def test_missing(archive: Path) -> None:
    """A package that did not come is named."""
    with pytest.raises(ActionableError, match="liby"):
        packages.check_hashes([archive], {"liby": "0" * 64})


def test_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive that can't be reached: apt's words, the address, and ways out."""
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", f"file:{tmp_path}/none")
    arguments = ["--output", str(tmp_path), "--suite", "bookworm", "--architecture", "arm64"]
    assert packages.main([*arguments, "libx#00"]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/none bookworm" in said
    assert "what to do: Register your own toolchains" in said
    assert list(tmp_path.iterdir()) == []


def test_versions_that_the_archive_has() -> None:
    """Older versions beside the newest count, and pins without a version are the newest."""
    available = {"libx": ["2.0-1", "1:1.0-1"], "liby": ["3"]}
    packages.check_versions(available, {"libx=1:1.0-1": "aa", "liby": "bb"}, "http://a sid")


def test_packages_that_moved_on() -> None:
    """One message has all of them, with both versions, and what to do."""
    available = {"libx": ["2.0-1", "1.5-1"], "liby": ["3"]}
    pins = {"libx=1.0-1": "aa", "liby=3": "bb", "libz=4": "cc"}
    with pytest.raises(ActionableError) as caught:
        packages.check_versions(available, pins, "http://a sid")
    assert caught.value.reason.splitlines() == [
        "http://a sid: packages moved on:",
        "libx: version in the archive: got 2.0-1, expected 1.0-1 (sha256 aa)",
        "libz: version in the archive: got none, expected 4 (sha256 cc)",
    ]
    assert "executorch.file_urls()" in caught.value.remedies[0]


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="this machine has no dpkg")
def test_downloaded_packages_ask_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them have been downloaded: they are unpacked, whatever the archive is.

    What they are for is printed, with their number and size.
    """
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", f"file:{tmp_path}/none")
    control = tmp_path / "libx/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text(
        "Package: libx\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n"
    )
    (tmp_path / "libx/file").write_text("contents")
    (tmp_path / "libx/random").write_bytes(random.Random(0).randbytes(90_000))
    deb = tmp_path / "libx_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "libx", deb], check=True)
    (tmp_path / "out").mkdir()
    arguments = [f"--output={tmp_path}/out", "--suite=bookworm", "--architecture=amd64"]
    purpose = "--purpose=@gpu: fetching a driver"
    assert packages.main([*arguments, purpose, f"--archives={deb}"]) == 0
    said = capsys.readouterr().err
    assert said == "@gpu: fetching a driver: 1 package\nfetched 1 package, 0.1 MB\n"
    assert (tmp_path / "out/file").read_text() == "contents"


@pytest.mark.parametrize(
    ("release", "first"), [("ID=fedora\n", "Install apt"), ("ID=x\n", "Add a line")]
)
def test_no_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, first: str) -> None:
    """The remedies of that system; with URLs no apt is needed, and each file is listed."""
    (tmp_path / "os-release").write_text(release)
    monkeypatch.setattr(packages, "_RELEASE", tmp_path / "os-release")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ActionableError, match="apt-get: not found on PATH") as caught:
        packages.fetch(tmp_path, "bookworm", "amd64", {"libx=1": "a" * 64})
    assert caught.value.remedies[0].startswith(first)
    assert f"libx=1: #sha256={'a' * 64}" in "".join(caught.value.remedies)
