"""Files out of archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle.extract import extract, main

MEMBER = "jni/arm64-v8a/libexecutorch.so"


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as opened:
        for name, data in members.items():
            opened.writestr(name.replace("__", "/"), data)
    return path


def test_the_first_that_has_it(tmp_path: Path) -> None:
    first = archive(tmp_path / "a.aar", classes=b"x")
    second = archive(tmp_path / "b.aar", **{MEMBER: b"library"})
    third = archive(tmp_path / "c.aar", **{MEMBER: b"another"})
    extract("//x:y", [first, second, third], MEMBER, tmp_path / "out.so")
    assert (tmp_path / "out.so").read_bytes() == b"library"


def test_none_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = archive(tmp_path / "a.aar", **{"jni/arm64-v8a/libother.so": b"x"})
    arguments = ["--label", "//x:y", "--archive", str(given), "--member", MEMBER]
    assert main([*arguments, "--output", str(tmp_path / "out.so")]) == 1
    message = capsys.readouterr().err
    assert f"//x:y: {MEMBER} not found in any archive. Available in jni/arm64-v8a/: " in message
    assert "jni/arm64-v8a/libother.so." in message
    assert not (tmp_path / "out.so").exists()


def test_a_damaged_archive(tmp_path: Path) -> None:
    given = archive(tmp_path / "a.aar", **{MEMBER: b"library" * 100})
    given.write_bytes(given.read_bytes()[:-30])
    with pytest.raises(BuildError, match=r"//x:y: .*a\.aar is damaged"):
        extract("//x:y", [given], MEMBER, tmp_path / "out.so")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.aar"]


def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning):
        given = tmp_path / "a.aar"
        with zipfile.ZipFile(given, "w") as opened:
            opened.writestr(MEMBER, b"one")
            opened.writestr(MEMBER, b"two")
    with pytest.raises(BuildError, match=r"a\.aar is damaged: it has jni/.* twice"):
        extract("//x:y", [given], MEMBER, tmp_path / "out.so")


@pytest.mark.parametrize(("position", "value"), [(6, 1), (8, 99)], ids=["encrypted", "packed"])
def test_members_of_unknown_kinds(tmp_path: Path, position: int, value: int) -> None:
    given = archive(tmp_path / "a.aar", **{MEMBER: b"library"})
    data = bytearray(given.read_bytes())
    # In the member's own header and in the directory.
    for start in (0, data.index(b"PK\1\2") + 2):
        data[start + position] = value
    given.write_bytes(data)
    with pytest.raises(BuildError, match=r"//x:y: .*a\.aar is damaged"):
        extract("//x:y", [given], MEMBER, tmp_path / "out.so")
    assert not (tmp_path / "out.so").exists()
