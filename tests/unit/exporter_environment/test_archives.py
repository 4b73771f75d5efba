"""Where members of wheels go, and which are refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from exporter_environment import archives, unpack
from exporter_environment.errors import InstallError
from exporter_environment.locks import Requirement
from fake_pip import MakeWheel, sha256


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "a/../../evil.py",
        "/etc/passwd",
        "a//b.py",
        "./a.py",
        "a\\b.py",
        "C:/a.py",
        "",
    ],
)
def test_paths_that_leave(name: str) -> None:
    """No member leaves the place it is unpacked to."""
    with pytest.raises(InstallError, match="path leaves the place"):
        archives.check_path(name, "a.whl")


def test_path_that_leaves_in_a_wheel(make_wheel: MakeWheel) -> None:
    """Also when it hides in a data folder."""
    for name in ("../evil.py", "a-1.data/purelib/../../evil.py"):
        with pytest.raises(InstallError) as caught:
            archives.contents(make_wheel("a-1", {name: b""}))
        assert "a-1-py3-none-any.whl" in str(caught.value)
        assert "evil.py" in str(caught.value)


def test_links_are_refused(make_wheel: MakeWheel) -> None:
    """A wheel holds files, not symbolic links."""
    wheel = make_wheel("a-1", {"a/link": b"/etc/passwd"}, {"a/link": 0o120777})
    with pytest.raises(InstallError, match="other than a file"):
        archives.contents(wheel)


def test_cut_short(make_wheel: MakeWheel) -> None:
    """Half an archive: the message says so."""
    wheel = make_wheel("a-1", {"a/b.py": b"x" * 1000})
    wheel.write_bytes(wheel.read_bytes()[:300])
    with pytest.raises(InstallError, match="can't be read") as caught:
        archives.contents(wheel)
    assert "cut short" in str(caught.value)


def test_data_folders(make_wheel: MakeWheel) -> None:
    """purelib and platlib are packages, scripts are programs, the rest stays out."""
    found = archives.contents(
        make_wheel(
            "a-1",
            {
                "a/__init__.py": b"",
                "a/tool": b"",
                "a-1.data/purelib/b.py": b"",
                "a-1.data/platlib/c.so": b"",
                "a-1.data/scripts/run": b"",
                "a-1.data/headers/a.h": b"",
                "a-1.data/data/share/man/a.1": b"",
            },
            {"a/tool": 0o100755},
        )
    )
    paths = {m.path for m in found.files if ".dist-info" not in m.path}
    assert paths == {"a/__init__.py", "a/tool", "b.py", "c.so"}
    assert [m.path for m in found.files if m.executable] == ["a/tool"]
    assert [(m.path, m.executable) for m in found.scripts] == [("run", True)]


def test_overlaps(make_wheel: MakeWheel) -> None:
    """Two packages may share a file if it is the same."""
    a = archives.contents(make_wheel("a-1", {"shared/__init__.py": b"", "shared/a.py": b"1"}))
    b = archives.contents(make_wheel("b-1", {"shared/__init__.py": b"", "shared/a.py": b"2"}))
    c = archives.contents(make_wheel("c-1", {"shared/__init__.py": b""}))
    archives.check_overlaps({"a": a, "c": c})
    with pytest.raises(InstallError, match="different files at the same path") as caught:
        archives.check_overlaps({"a": a, "b": b})
    assert "site-packages/shared/a.py" in str(caught.value)


def test_hash_is_checked(make_wheel: MakeWheel) -> None:
    """A file that the lock doesn't name is refused with its hash."""
    wheel = make_wheel("a-1", {"a.py": b""})
    unpack.check_hash(wheel, Requirement("a", "1", "", frozenset({sha256(wheel)})))
    with pytest.raises(InstallError) as caught:
        unpack.check_hash(wheel, Requirement("a", "1", "", frozenset({"0" * 64})))
    assert f"got: sha256 {sha256(wheel)}" in str(caught.value)
    assert wheel.name in str(caught.value)


def test_error_travels(tmp_path: Path) -> None:
    """Errors of worker processes arrive whole."""
    error = InstallError("what", where=tmp_path, got=1, wanted=2, todo="this")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, InstallError)
    assert str(copy) == str(error)
    assert copy.what == "what"
