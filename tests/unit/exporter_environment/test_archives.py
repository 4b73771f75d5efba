"""Where members of wheels go, and which are refused."""

from __future__ import annotations

import pickle
import random
import struct
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
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


def written(path: Path, members: list[tuple[str, bytes]], **options: object) -> Path:
    """A wheel of any members, in their order."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", **options) as archive:  # type: ignore[call-overload]
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("kind", [0o060644, 0o020644, 0o010644, 0o140644])
def test_devices_are_refused(make_wheel: MakeWheel, kind: int) -> None:
    """Neither devices nor pipes nor sockets."""
    wheel = make_wheel("a-1", {"a/device": b""}, {"a/device": kind})
    with pytest.raises(InstallError, match="other than a file"):
        archives.contents(wheel)


@pytest.mark.parametrize(
    "names",
    [
        ("a/b.py", "a/b.py"),
        ("a/b.py", "a-1.data/purelib/a/b.py"),
        ("a-1.data/purelib/b.py", "a-1.data/platlib/b.py"),
        ("a-1.data/scripts/run", "a-1.data/scripts/run"),
    ],
)
def test_files_that_are_there_twice(tmp_path: Path, names: tuple[str, str]) -> None:
    """One was looked at, the other would be used."""
    wheel = written(tmp_path / "a-1-py3-none-any.whl", [(names[0], b"1"), (names[1], b"2")])
    with pytest.raises(InstallError, match="a wheel holds a file twice") as caught:
        archives.contents(wheel)
    assert "a-1-py3-none-any.whl" in str(caught.value)


def test_a_file_that_is_a_folder(tmp_path: Path) -> None:
    """The second could not be written."""
    wheel = written(tmp_path / "a.whl", [("a/b", b""), ("a/b/c", b"")])
    with pytest.raises(InstallError, match="a file that is a folder") as caught:
        archives.contents(wheel)
    assert "'a/b' and 'a/b/c'" in str(caught.value)


def test_names_that_are_too_long(tmp_path: Path) -> None:
    """No file system has them."""
    wheel = written(tmp_path / "a.whl", [("a/" + "b" * 256, b"")])
    with pytest.raises(InstallError, match="path leaves the place"):
        archives.contents(wheel)


def test_sizes_that_cannot_be(tmp_path: Path) -> None:
    """A member that says that it is larger than its bytes can make it."""
    noise = random.Random(1).randbytes(54_321)
    wheel = written(tmp_path / "a.whl", [("a.bin", noise)])
    data = wheel.read_bytes()
    # Of the four places that have the size, the second of each header is that of the plain bytes.
    packed = struct.pack("<II", 54_321, 54_321)
    assert data.count(packed) == 2
    wheel.write_bytes(data.replace(packed, struct.pack("<II", 54_321, 4_000_000_000)))
    with pytest.raises(InstallError, match="no archive of a package") as caught:
        archives.contents(wheel)
    assert "'a.bin', 4000000000 bytes out of 54321" in str(caught.value)


def test_members_that_lie_over_each_other(tmp_path: Path) -> None:
    """Small archives become endless by naming the same bytes again and again."""
    wheel = written(tmp_path / "a.whl", [(f"{n}.bin", b"x" * 50) for n in range(4)])
    data = wheel.read_bytes()
    packed = struct.pack("<II", 50, 50)
    assert data.count(packed) == 8
    wheel.write_bytes(data.replace(packed, struct.pack("<II", len(data), len(data))))
    with pytest.raises(InstallError, match="they lie over each other"):
        archives.contents(wheel)


def test_an_archive_that_grows_too_much(tmp_path: Path) -> None:
    """A thousand times is what zeros do, and no package."""
    wheel = written(
        tmp_path / "a.whl", [("zeros", bytes(80 << 20))], compression=zipfile.ZIP_DEFLATED
    )
    with pytest.raises(InstallError, match="no archive of a package") as caught:
        archives.contents(wheel)
    assert f"83886080 bytes out of {wheel.stat().st_size}" in str(caught.value)


def test_what_does_not_unpack(tmp_path: Path, make_wheel: MakeWheel) -> None:
    """Compressed bytes that are damaged, with a hash that the lock has."""
    wheel = written(
        tmp_path / "a-1-py3-none-any.whl",
        [("a.py", random.Random(1).randbytes(2000).hex().encode())],
        compression=zipfile.ZIP_DEFLATED,
    )
    data = bytearray(wheel.read_bytes())
    data[200:400] = bytes(200)
    wheel.write_bytes(data)
    requirement = Requirement("a", "1", "", frozenset({sha256(wheel)}))
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(InstallError, match="a wheel is damaged"),
    ):
        unpack.unpack({"a": wheel}, {"a": requirement}, tmp_path / "out", executor)


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
