"""`et diff`: what changed, in bytes and tensors. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from commands import Et, Linked
from synthetic import SyntheticProgram


def test_the_same_bytes(et: Et, tmp_path: Path) -> None:
    before, after = (SyntheticProgram().write(tmp_path / n) for n in ("a.pte", "b.pte"))
    result = et("diff", before, after)
    assert (result.code, result.out) == (0, "The same bytes: 1.6 kB\n")


def test_changed_added_removed_renamed(et: Et, tmp_path: Path) -> None:
    old = {"kept": b"k" * 10, "changed": b"abcd", "gone": b"g" * 7, "old": b"same bytes"}
    new = {"kept": b"k" * 10, "changed": b"abXY", "new": b"n" * 90, "young": b"same bytes"}
    before = SyntheticProgram(named=old).write(tmp_path / "a.pte")
    after = SyntheticProgram(named=new).write(tmp_path / "b.pte")
    result = et("diff", before, after, "--json")
    assert result.code == 1
    rows = {r["name"]: r for r in result.json["data"]}
    assert {n: r["change"] for n, r in rows.items()} == {
        "changed": "changed",
        "gone": "removed",
        "new": "added",
        "young": "renamed",
    }
    assert rows["changed"]["bytes_that_differ"] == 2
    assert rows["young"]["before_name"] == "old"
    assert (rows["new"]["before"], rows["new"]["after"]) == (0, 90)
    # What changed most comes first.
    assert result.json["data"][0]["name"] == "new"


def test_methods(et: Et, tmp_path: Path) -> None:
    before = SyntheticProgram(methods={"forward": {}, "old": {}}, outputs={"forward": [2]})
    after = SyntheticProgram(methods={"forward": {}, "new": {}}, outputs={"forward": [4]})
    before, after = before.write(tmp_path / "a.pte"), after.write(tmp_path / "b.pte")
    result = et("diff", before, after, "--json").json
    changes = {m["name"]: m for m in result["methods"]}
    assert {n: m["change"] for n, m in changes.items()} == {
        "forward": "changed",
        "new": "added",
        "old": "removed",
    }
    assert changes["forward"]["outputs"]["before"][0]["shape"] == [2]
    out = et("diff", before, after).out
    assert "outputs: float32 [2] → float32 [4]" in out


def test_fields_of_the_tables(et: Et, tmp_path: Path) -> None:
    before = SyntheticProgram().write(tmp_path / "a.pte")
    changed = SyntheticProgram()
    changed.methods = {"forward": {"other": b"w" * 12, **changed.methods["forward"]}}
    result = et("diff", before, changed.write(tmp_path / "b.pte"), "--json").json
    assert result["other"]
    assert not [line for line in result["other"] if line.startswith("program.segments")]


def test_data_files(et: Et, linked: Linked, tmp_path: Path) -> None:
    other = tmp_path / "other.ptd"
    whole = bytearray(linked.shared.read_bytes())
    whole[whole.index(b"eeee")] ^= 1
    other.write_bytes(whole)
    [row] = et("diff", linked.shared, other, "--json").json["data"]
    assert (row["name"], row["change"], row["bytes_that_differ"]) == ("embedding", "changed", 1)


def test_files_of_two_kinds(et: Et, linked: Linked) -> None:
    result = et("diff", linked.program, linked.shared)
    assert result.code == 1
    assert "they begin as files of two kinds: program and data file" in result.out


def test_folders(et: Et, app: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(app, copy)
    assert et("diff", app, copy).code == 0
    (copy / "runner").write_text("another\n")
    result = et("diff", app, copy)
    assert result.code == 1
    assert "runner: " in result.out
