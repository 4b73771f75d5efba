"""The release archive: same files, same bytes; what is left out."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import archive
import pytest

_FILES = {
    ".gitattributes": "tests export-ignore\n",
    "MODULE.bazel": 'module(\n    name = "some_rules",\n    version = "1.2.3",\n)\n',
    "tool": "#!/bin/sh\n",
    "tests/unit/test_a.py": "",
    "examples/hello/BUILD.bazel": "",
}


def git(folder: Path, *arguments: str, date: str = "2001-01-01T00:00:00Z") -> None:
    identity = {"NAME": "A", "EMAIL": "a@example.com", "DATE": date}
    environment = {
        f"GIT_{who}_{key}": value
        for who in ("AUTHOR", "COMMITTER")
        for key, value in identity.items()
    }
    subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        check=True,
        capture_output=True,
    )


def repository(folder: Path, *, date: str = "2001-01-01T00:00:00Z") -> Path:
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tool").chmod(0o755)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one", date=date)
    return folder


def test_what_is_in_it(tmp_path: Path) -> None:
    path = archive.make(repository(tmp_path / "r"), tmp_path / "out/dist")
    assert path.name == "some_rules-1.2.3.tar.gz"
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with tarfile.open(path) as opened:
        members = {m.name: m for m in opened.getmembers()}
    prefix = "some_rules-1.2.3/"
    assert list(members) == [
        prefix + name
        for name in (".gitattributes", "MODULE.bazel", "examples/hello/BUILD.bazel", "tool")
    ]
    assert members[prefix + "tool"].mode == 0o755
    assert members[prefix + "MODULE.bazel"].mode == 0o644
    assert {(m.mtime, m.uid, m.uname) for m in members.values()} == {(0, 0, "")}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """In another folder, committed at another time; what isn't committed is not in it."""
    one = archive.make(repository(tmp_path / "one"), tmp_path / "a")
    other = repository(tmp_path / "deeper/two", date="2031-05-05T00:00:00Z")
    (other / "MODULE.bazel").write_text("changed")
    (other / "new").touch()
    two = archive.make(other, tmp_path / "b")
    assert one.read_bytes() == two.read_bytes()
    assert archive.integrity(one).startswith("sha256-")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('module(\n    name = "a",\n)\n', "x has no module() with a name and a version"),
        ('bazel_dep(name = "a", version = "1")\n', "x has no module()"),
    ],
)
def test_no_version(text: str, says: str) -> None:
    with pytest.raises(archive.ArchiveError, match=says.replace("(", r"\(").replace(")", r"\)")):
        archive.module_line(text, "x")


def test_no_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert archive.main([str(tmp_path / "out")]) == 1
    assert "error: git show HEAD:MODULE.bazel, in " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_links_stay_links() -> None:
    exported = io.BytesIO()
    with tarfile.open(fileobj=exported, mode="w") as out:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "there"
        out.addfile(entry)
    packed = archive.pack(exported.getvalue(), "p-1")
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        (member,) = opened.getmembers()
    assert (member.name, member.linkname, member.issym()) == ("p-1/link", "there", True)
