"""Debian packages are those that are pinned, or the user is told what to do."""

from __future__ import annotations

import hashlib
from pathlib import Path

import packages
import pytest
from bootstrap.console import BootstrapError


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
    with pytest.raises(BootstrapError) as caught:
        packages.check_hashes([archive], {"libx++6": "0" * 64})
    for part in (archive.name, "0" * 64, hashlib.sha256(b"contents").hexdigest()):
        assert part in caught.value.reason
    assert "newer version" in " ".join(caught.value.remedies)


def test_missing(archive: Path) -> None:
    """A package that did not come is named."""
    with pytest.raises(BootstrapError, match="liby"):
        packages.check_hashes([archive], {"liby": "0" * 64})


def test_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive that can't be reached: apt's words, the address, and ways out."""
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", f"file:{tmp_path}/none")
    arguments = ["--output", str(tmp_path), "--suite", "bookworm", "--architecture", "arm64"]
    assert packages.main([*arguments, "libx=00"]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/none bookworm" in said
    assert "what to do: Register your own toolchains" in said
    assert list(tmp_path.iterdir()) == []
