"""Damaged lowered programs and outputs that cannot be written: nothing half-written stays."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink.__main__ import main
from etlink.container import Piece, copy_piece, write_atomically
from synthetic import SyntheticProgram, biggest_blob, leftovers, relink


@pytest.mark.parametrize("separate", [False, True])
def test_a_missing_blob_is_named(tmp_path: Path, separate: bool) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    blob = biggest_blob(lowered)
    blob.unlink()
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate)
    assert caught.value.what == f"{blob} is missing."
    assert caught.value.hint.startswith("Rebuild the target that makes it")
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "out" / ("p.ptd" if separate else "p.pte")).exists()


@pytest.mark.parametrize("length", [None, 0, 100])
def test_damaged_tables_are_named(tmp_path: Path, length: int | None) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    tables = lowered.folder / "program.bin"
    whole = tables.read_bytes()
    tables.unlink()
    if length is not None:
        tables.write_bytes(whole[:length])
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out")
    assert caught.value.what.startswith(f"{lowered.folder}: the program's tables cannot be read (")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("separate", [False, True])
def test_a_truncated_blob_is_named(tmp_path: Path, separate: bool) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    blob = biggest_blob(lowered)
    blob.write_bytes(blob.read_bytes()[:-7])
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate)
    assert caught.value.what == (
        f"{blob} is truncated: 7 of the 297 bytes at offset 0 are missing."
    )
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "out" / ("p.ptd" if separate else "p.pte")).exists()


def test_a_changed_blob_gives_no_program(tmp_path: Path) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    blob = biggest_blob(lowered)
    blob.write_bytes(blob.read_bytes()[::-1])
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out")
    assert caught.value.what.startswith(
        f"//m:program: the linked program {tmp_path / 'out' / 'p.pte'} differs from the one that "
        "was lowered: got sha256 "
    )
    assert caught.value.what.endswith(f", expected {lowered.index.sha256}.")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_output_without_a_folder_says_so(tmp_path: Path) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    (tmp_path / "file").write_text("no folder")
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        arguments = ["--lowered", lowered.folder, "--program", place / "p.pte"]
        assert main([str(a) for a in arguments]) == 1
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("separate", [False, True])
def test_an_unwritable_output_is_named(tmp_path: Path, separate: bool) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    # A folder instead of the file: not even root can write it.
    occupied = tmp_path / "out" / ("p.ptd" if separate else "p.pte")
    occupied.mkdir(parents=True)
    with pytest.raises(BuildError) as caught:
        relink(lowered, tmp_path / "out", separate)
    assert caught.value.what == f"{occupied} cannot be written: Is a directory."
    assert caught.value.hint == "Check that the folder exists, is writable and has space left."
    assert leftovers(tmp_path) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    def write(out: io.BufferedWriter) -> None:
        out.write(b"half of it")
        raise OSError(28, "No space left on device")

    with pytest.raises(BuildError, match=r"/p\.pte cannot be written: No space left on device\."):
        write_atomically(tmp_path / "p.pte", write)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "p.pte"
    path.write_text("old")

    def write(out: io.BufferedWriter) -> None:
        out.write(b"new")
        raise BuildError("stop")

    with pytest.raises(BuildError, match="stop"):
        write_atomically(path, write)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("p.pte", "old")]


def test_a_piece_in_a_file_that_is_too_short(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"0123456789")
    out = io.BytesIO()
    copy_piece(Piece(4, path=path, offset=3), out)
    assert out.getvalue() == b"3456"
    with pytest.raises(BuildError, match="1 of the 8 bytes at offset 3 are missing"):
        copy_piece(Piece(8, path=path, offset=3), out)


def test_the_command_line_writes_a_summary(tmp_path: Path) -> None:
    lowered = SyntheticProgram().lower(tmp_path / "lowered")
    (lowered.folder / "lowering.json").write_text('{"delegation": {}}')
    names = {n: tmp_path / f"out.{n}" for n in ("pte", "ptd", "json")}
    arguments = ["--lowered", lowered.folder, "--program", names["pte"], "--data", names["ptd"]]
    assert main([str(a) for a in [*arguments, "--summary", names["json"]]]) == 0
    summary = json.loads(names["json"].read_text())
    assert summary.pop("manifest")["programs"]["out"]["data"] == ["out.ptd"]
    assert summary == {
        "delegated_layers": {},
        "program_bytes": names["pte"].stat().st_size,
        "data_bytes": names["ptd"].stat().st_size,
        "embedded": [],
        "estimates": {},
        "separate": ["a.bias", "a.weight", "b.weight", "k1", "k2", "same"],
        "shared": [],
        "titles": {},
        "unshared": [],
        "unused": [],
    }


def test_the_command_line_prints_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lowered", str(tmp_path), "--program", str(tmp_path / "p.pte")]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        f"ERROR: {tmp_path / 'index.json'} is not the index of a lowered program: "
    )
