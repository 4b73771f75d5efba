"""Linking without torch: synthetic lowered programs, data files, and damaged files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etlink import ptd, pte, schema
from etlink.container import Piece, write_atomically
from etlink.link import link
from etlink.lowered import Lowered
from etlink.named_data import Layout
from etlink.split import Hints, split
from synthetic import named


def named_program(path: Path, named: dict[str, bytes]) -> Path:
    """A program without methods, with named data in its file."""
    program = schema.program_class("ProgramT")()
    program.version = 0
    program.executionPlan = []
    program.namedData = []
    segments = []
    for number, (key, data) in enumerate(named.items()):
        table = schema.program_class("NamedDataT")()
        table.key, table.segmentIndex = key, number
        program.namedData.append(table)
        segments.append(pte.Segment((Piece.of(data),)))
    with open(path, "wb") as out:
        pte.write(out, program, segments)
    return path


@pytest.fixture
def lowered(tmp_path: Path) -> Path:
    """A lowered program with two keys for one blob and one for another."""
    path = named_program(tmp_path / "p.pte", {"a": b"x" * 1000, "b": b"y" * 10})
    split(path, tmp_path / "lowered", "//x:p", {"executorch": "1.5.1"}, Hints())
    return tmp_path / "lowered"


def test_linking_gives_the_same_file(lowered: Path, tmp_path: Path) -> None:
    """Splitting and linking are each other's inverse."""
    linked = link(Lowered(lowered), tmp_path / "again.pte")
    assert (tmp_path / "again.pte").read_bytes() == (tmp_path / "p.pte").read_bytes()
    assert linked.embedded == ("a", "b")


def test_two_splits_are_equal(lowered: Path, tmp_path: Path) -> None:
    """No path, time or order of hashes in a lowered program."""
    split(tmp_path / "p.pte", tmp_path / "two", "//x:p", {"executorch": "1.5.1"}, Hints())
    files = sorted(p.relative_to(lowered) for p in lowered.rglob("*") if p.is_file())
    assert files == sorted(
        p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file()
    )
    for file in files:
        assert (lowered / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    for blob in (lowered / "blobs").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


def test_separate_data(lowered: Path, tmp_path: Path) -> None:
    """The .ptd has the keys; the program no longer has them."""
    linked = link(Lowered(lowered), tmp_path / "s.pte", tmp_path / "s.ptd")
    assert linked.separate == ("a", "b")
    result = ptd.read(tmp_path / "s.ptd")
    assert {k: p.size for k, (p, _) in result.items()} == {"a": 1000, "b": 10}
    assert not pte.read(tmp_path / "s.pte").program.namedData


def test_data_file_round_trip(tmp_path: Path) -> None:
    """Keys sorted, equal bytes once, layouts kept, segments aligned."""
    layout = Layout(6, (2, 3, 5), (2, 0, 1))
    entries = [
        named("z", b"1" * 120, 1, layout),
        named("a", b"2" * 7, 64),
        named("m", b"1" * 120),
    ]
    path = tmp_path / "d.ptd"
    write_atomically(path, lambda out: ptd.write(out, entries))
    result = ptd.read(path)
    assert list(result) == ["a", "m", "z"]
    assert result["z"][1] == layout
    assert result["a"][1] is None
    assert result["m"][0].offset == result["z"][0].offset
    assert all(piece.offset % 128 == 0 for piece, _ in result.values())
    data = path.read_bytes()
    piece = result["a"][0]
    assert data[piece.offset : piece.offset + piece.size] == b"2" * 7


@pytest.mark.parametrize("keep", [0, 7, 40, 90, 160])
def test_truncated_data_file(tmp_path: Path, keep: int) -> None:
    """Every cut is an error that names the file."""
    path = tmp_path / "d.ptd"
    write_atomically(path, lambda out: ptd.write(out, [named("key", b"1" * 500)]))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BuildError, match=r"d\.ptd is (not an ExecuTorch data file|truncated)"):
        ptd.read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:4] + b"XX12" + d[8:], "is not an ExecuTorch program"),
        (lambda d: d[:-5], "is truncated: segment"),
        (lambda d: d[:60], "is truncated: got 60 bytes"),
        (lambda d: d[:40] + b"\xff" * 40 + d[80:], "is damaged|is truncated"),
        (lambda d: b"", "is not an ExecuTorch program"),
    ],
)
def test_damaged_program(tmp_path: Path, change, message: str) -> None:
    """Each damage is an error, never another exception."""
    path = named_program(tmp_path / "p.pte", {"a": b"x" * 1000})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(BuildError, match=message):
        pte.read(path)


def test_damaged_lowered_program(lowered: Path, tmp_path: Path) -> None:
    """A blob that changed, is cut, or is missing; an index of another format."""
    blob = max((lowered / "blobs").iterdir(), key=lambda p: p.stat().st_size)
    whole = blob.read_bytes()
    blob.write_bytes(b"z" + whole[1:])
    with pytest.raises(BuildError, match="differs from the one that was lowered"):
        link(Lowered(lowered), tmp_path / "out.pte")
    blob.write_bytes(whole[:-1])
    with pytest.raises(
        BuildError, match="is truncated: 1 of the 1000 bytes at offset 0 are missing"
    ):
        link(Lowered(lowered), tmp_path / "out.pte")
    blob.unlink()
    with pytest.raises(BuildError, match="is missing"):
        link(Lowered(lowered), tmp_path / "out.pte")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lowered", "p.pte"]
    index = json.loads((lowered / "index.json").read_text())
    (lowered / "index.json").write_text(json.dumps({**index, "format": 99}))
    with pytest.raises(BuildError, match="got format 99, expected 3"):
        Lowered(lowered)
    (lowered / "index.json").unlink()
    with pytest.raises(BuildError, match="is not the index of a lowered program"):
        Lowered(lowered)


def test_unwritable_output(lowered: Path, tmp_path: Path) -> None:
    """A folder that isn't there."""
    with pytest.raises(BuildError, match="nowhere/out.pte cannot be written: No such file"):
        link(Lowered(lowered), tmp_path / "nowhere/out.pte")


_LINK = """
import resource, sys
from pathlib import Path
from etlink.link import link
from etlink.lowered import Lowered
from etlink.named_data import Layout
link(Lowered(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_is_constant(lowered: Path, tmp_path: Path) -> None:
    """Half a gigabyte is linked in little memory."""
    size = 512 << 20
    index = json.loads((lowered / "index.json").read_text())
    for item in index["named_data"]:
        if item["key"] == "a":
            item["size"] = size
            os.truncate(lowered / "blobs" / item["sha256"], size)
    (lowered / "index.json").write_text(json.dumps(index))
    command = [sys.executable, "-c", _LINK, str(lowered)]
    command += [str(tmp_path / "big.pte"), str(tmp_path / "big.ptd")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (tmp_path / "big.ptd").stat().st_size > size
    assert int(done.stdout) < 200
