"""Archives: the same bytes everywhere, readable, aligned, and of files that fit no memory."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from etbuild.errors import BuildError
from etbundle import archives, entries
from etbundle.entries import Entry

FILES = {
    "runner": b"\x7fELF" + bytes(500),
    "lib/liba.so": b"\x7fELF" + bytes(70001),
    "lib/libb.so": b"\x7fELF" + bytes(range(256)),
    "programs/net.pte": b"ET12" * 2000,
    "data/größe.ptd": b"FT01" * 3000,
    "manifest.json": b'{"format": 1}\n' * 30,
    "resources.arsc": b"\x02\x00" * 77,
}

Write = Callable[[Path, list[Entry]], None]
BOTH = pytest.mark.parametrize("write", [archives.write_tar_zst, archives.write_zip])


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with the files."""
    return make(tmp_path / "app")


def make(folder: Path, names: list[str] | None = None) -> Path:
    for name in names or list(FILES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
    return folder


def packed(write: Write, folder: Path, output: Path) -> bytes:
    write(output, entries.tree(folder, executables=["runner"]))
    return output.read_bytes()


@BOTH
def test_same_bytes(write: Write, app: Path, tmp_path: Path) -> None:
    """Another folder, order, time, mode, umask, and links instead of files: the same archive."""
    expected = packed(write, app, tmp_path / "one")
    assert packed(write, app, tmp_path / "two") == expected
    other = make(tmp_path / "some where" / "else", list(reversed(FILES)))
    for path in other.rglob("*"):
        os.utime(path, (1, 2_000_000_000))
        path.chmod(0o755 if path.is_dir() or path.suffix == ".pte" else 0o600)
    before = os.umask(0o077)
    try:
        assert packed(write, other, tmp_path / "three") == expected
    finally:
        os.umask(before)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "lib").symlink_to(app / "lib")
    for name in FILES:
        if not name.startswith("lib/"):
            (linked / name).parent.mkdir(exist_ok=True)
            (linked / name).symlink_to(app / name)
    assert packed(write, linked, tmp_path / "four") == expected


def test_tar(app: Path, tmp_path: Path) -> None:
    """Contents, order, owner, modes and times; one frame."""
    data = packed(archives.write_tar_zst, app, tmp_path / "a.tar.zst")
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    raw = decompressor.decompress(data)
    assert decompressor.unused_data == b""
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = archive.getmembers()
        assert [m.name for m in members] == sorted(FILES)
        for member in members:
            assert archive.extractfile(member).read() == FILES[member.name]
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            assert member.mtime == 0
            assert member.mode == (0o755 if member.name == "runner" else 0o644)


def test_zip(app: Path, tmp_path: Path) -> None:
    """Contents, order, modes and times; what is stored and what is deflated."""
    packed(archives.write_zip, app, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        infos = archive.infolist()
        assert [i.filename for i in infos] == sorted(FILES)
        for info in infos:
            assert archive.read(info) == FILES[info.filename]
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.create_system == 3
            mode = 0o755 if info.filename == "runner" else 0o644
            assert info.external_attr >> 16 == 0o100000 | mode
            stored = info.filename.endswith((".so", ".pte", ".ptd"))
            kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            assert info.compress_type == kind
            assert info.extra == b""


def data_offset(data: bytes, info: zipfile.ZipInfo) -> int:
    """Returns the offset of an entry's contents."""
    name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
    return info.header_offset + 30 + name + extra


def alignments(path: Path) -> dict[str, int]:
    """Offsets of contents by name."""
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return {i.filename: data_offset(data, i) for i in archive.infolist()}


def test_alignment(tmp_path: Path) -> None:
    """Stored files begin at multiples; every length of padding gives a well-formed extra field."""
    for length in range(40):
        items = [Entry("a" * (length + 1), b"x")]
        items += [Entry(f"lib/{n}.so", b"1" * 3) for n in "bcd"]
        items += [Entry("e.pte", b"22"), Entry("f.ptd", b"333"), Entry("g.json", b"4")]
        path = tmp_path / f"{length}.zip"
        archives.write_zip(path, items, stored=lambda name: not name.startswith("a"))
        result = alignments(path)
        for name, offset in result.items():
            if name.endswith(".so"):
                assert offset % 16384 == 0
            elif name.endswith((".pte", ".ptd")):
                assert offset % 4096 == 0
            elif name.endswith(".json"):
                assert offset % 4 == 0
        data = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                start = info.header_offset + 30 + len(info.filename.encode())
                extra = data[start : result[info.filename]]
                if extra:
                    kind, size, alignment = struct.unpack_from("<HHH", extra)
                    assert (kind, size) == (0xD935, len(extra) - 4)
                    assert result[info.filename] % alignment == 0


def test_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 32 bits, here made small: offsets and sizes are read back, and stay aligned."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10_000)
    path = tmp_path / "a.zip"
    items = [Entry("a.pte", b"a" * 20_000), Entry("b.json", b"b" * 9_000), Entry("c.so", b"c")]
    archives.write_zip(path, items)
    monkeypatch.undo()
    assert b"PK\x06\x06" in path.read_bytes()
    result = alignments(path)
    assert result["a.pte"] % 4096 == 0
    assert result["c.so"] % 16384 == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("a.pte") == b"a" * 20_000


@BOTH
def test_little_memory(write: Write, tmp_path: Path) -> None:
    """A file that is larger than the memory that the process may take."""
    folder = tmp_path / "app"
    folder.mkdir()
    with (folder / "large.ptd").open("wb") as file:
        file.truncate(1 << 30)
    program = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({800 << 20}, {800 << 20}))\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from etbundle import archives, entries\n"
        f"archives.{write.__name__}(Path({str(tmp_path / 'out')!r}),\n"
        f"    entries.tree(Path({str(folder)!r})))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "out").stat().st_size > 0


@BOTH
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], 'named "a"'),
        (["../a"], "cannot name a file"),
        (["/a"], "cannot name a file"),
        (["a//b"], "cannot name a file"),
        (["a\\b"], "cannot name a file"),
        (["a\0b"], "cannot name a file"),
        (["a", "a-b", "a/b"], 'both a file "a" and "a/b"'),
    ],
)
def test_wrong_names(write: Write, names: list[str], message: str, tmp_path: Path) -> None:
    """Names that overwrite each other or leave the folder."""
    with pytest.raises(BuildError, match=message):
        write(tmp_path / "out", [Entry(name, b"") for name in names])


def test_command(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program: kinds of archives by name, and its errors."""
    common = ["--directory", str(app), "--prefix", "chat", "--executable", "runner"]
    assert archives.main(["--output", str(tmp_path / "a.zip"), *common]) == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == sorted(f"chat/{name}" for name in FILES)
        assert archive.getinfo("chat/runner").external_attr >> 16 == 0o100755
    assert archives.main(["--output", str(tmp_path / "a.tar.zst"), *common]) == 0
    assert archives.main(["--output", str(tmp_path / "a.rar"), *common]) == 1
    assert "unknown kind of archive, expected .tar.zst or .zip or .jar" in capsys.readouterr().err
    wrong = ["--directory", str(app), "--executable", "walker"]
    assert archives.main(["--output", str(tmp_path / "b.zip"), *wrong]) == 1
    assert "executables not found: walker. Available: data/" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert archives.main(["--output", str(tmp_path / "b.zip"), "--directory", str(empty)]) == 1
    assert "no files found" in capsys.readouterr().err


@pytest.mark.skipif("RUN_LARGE" not in os.environ, reason="writes 5 GB; run by archives_large_test")
@BOTH
def test_large(write: Write, tmp_path: Path) -> None:
    """A file of more than 4 GiB, and one behind it."""
    folder = tmp_path / "app"
    folder.mkdir()
    with (folder / "a.ptd").open("wb") as file:
        file.truncate((4 << 30) + 4097)
        file.seek(4 << 30)
        file.write(b"end")
    (folder / "b.pte").write_bytes(b"behind")
    output = tmp_path / "out"
    write(output, entries.tree(folder))
    if write is archives.write_zip:
        with zipfile.ZipFile(output) as archive:
            assert archive.getinfo("a.ptd").file_size == (4 << 30) + 4097
            assert archive.testzip() is None
            assert archive.read("b.pte") == b"behind"
    else:
        with (
            zstandard.ZstdDecompressor().stream_reader(output.open("rb")) as raw,
            tarfile.open(fileobj=raw, mode="r|") as archive,
        ):
            sizes = {m.name: m.size for m in archive}
        assert sizes == {"a.ptd": (4 << 30) + 4097, "b.pte": 6}
