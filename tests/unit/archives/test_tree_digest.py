"""The digest of an SDK's folder: what changes it, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tree_digest import digest


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """A folder with two files, one of them behind a link, and a link that leads back."""
    folder = tmp_path / "sdk"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/a.so").write_text("aaaa")
    (folder / "lib/b.so").symlink_to("a.so")
    (folder / "lib/all").symlink_to("..")
    return folder


def test_a_changed_file_of_the_same_size(sdk: Path) -> None:
    """Its time of change does not have to change, either."""
    before, times = digest(sdk), os.stat(sdk / "lib/a.so")
    (sdk / "lib/a.so").write_text("aaab")
    os.utime(sdk / "lib/a.so", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest(sdk) != before


def test_names_count(sdk: Path) -> None:
    before = digest(sdk)
    (sdk / "lib/a.so").rename(sdk / "lib/c.so")
    (sdk / "lib/b.so").unlink()
    (sdk / "lib/b.so").symlink_to("c.so")
    assert digest(sdk) != before


def test_places_and_links_do_not(sdk: Path, tmp_path: Path) -> None:
    """A copy elsewhere, with a file instead of a link to one."""
    copy = tmp_path / "elsewhere/copy"
    (copy / "lib").mkdir(parents=True)
    for name in ("a.so", "b.so"):
        (copy / "lib" / name).write_text("aaaa")
    assert digest(copy) == digest(sdk)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digest(tmp_path / "none")
