"""`et inspect`: what is in a file, and what is missing to run it. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Et, Linked
from etlink.named_data import NamedData, titles
from synthetic import SyntheticProgram


def test_a_program(et: Et, tmp_path: Path) -> None:
    path = SyntheticProgram().write(tmp_path / "p.pte")
    result = et("inspect", path, "--json").json
    assert (result["kind"], result["bytes"]) == ("program", path.stat().st_size)
    assert [m["name"] for m in result["methods"]] == ["forward"]
    by_name = {d["name"]: d for d in result["data"]}
    assert {n: by_name[n]["bytes"] for n in ("k1", "k2", "same")} == {
        "k1": 15,
        "k2": 297,
        "same": 297,
    }
    assert by_name["constant 1"]["dtype"] == "float32"
    assert by_name["constant 1"]["shape"] == [10]
    assert sum(result["sizes"].values()) >= result["bytes"]
    assert result["missing"] == []


def test_what_is_missing_comes_first(et: Et, linked: Linked, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.pte"
    lonely.write_bytes(linked.program.read_bytes())
    result = et("inspect", lonely, "--json").json
    assert [m["key"] for m in result["missing"]] == ["embedding"]
    lines = et("inspect", lonely).out.splitlines()
    assert lines[1] == (
        "! 1 of 1 keys outside of the file are missing; name their .ptd files with --data:"
    )
    assert lines[2] == "!   embedding  float32 [16]"
    assert et("inspect", lonely, "--data", linked.shared, "--json").json["missing"] == []


def test_data_files_beside_a_program_are_read(et: Et, linked: Linked) -> None:
    result = et("inspect", linked.program, "--json").json
    assert result["missing"] == []
    assert result["data_files"] == [{"file": "f.ptd", "keys": 1, "used": 1}]


def test_a_data_file(et: Et, linked: Linked) -> None:
    result = et("inspect", linked.shared, "--json").json
    assert result["data"] == [{"name": "embedding", "bytes": 64, "dtype": "float32", "shape": [16]}]


def test_paths_are_the_users(et: Et, linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(linked.program.parent))
    assert et("inspect", "p.pte", "--json").json["file"] == "p.pte"


def test_names_cannot_give_a_terminal_orders(et: Et, tmp_path: Path) -> None:
    path = SyntheticProgram(named={"\x1b[2Jgone": b"x" * 300}).write(tmp_path / "p.pte")
    out = et("inspect", path).out
    assert "\\x1b[2Jgone" in out and "\x1b" not in out


def test_many_data_are_cut_off(et: Et, tmp_path: Path) -> None:
    named = {f"key{n:03}": bytes([n, 1]) * 5 for n in range(40)}
    path = SyntheticProgram(named=named).write(tmp_path / "p.pte")
    assert "smaller ones; --all shows them" in et("inspect", path).out
    assert "key039" in et("inspect", path, "--all").out


def test_names_instead_of_hashes(et: Et, tmp_path: Path) -> None:
    """The linker writes names of weights beside its files; diff pairs by them."""
    hashes = {"first": "a" * 64, "second": "b" * 64, "changed": "c" * 64}
    named = {
        "before": {hashes["first"]: b"f" * 9, hashes["second"]: b"s" * 5},
        "after": {hashes["changed"]: b"F" * 9, hashes["second"]: b"s" * 5},
    }
    titles = {
        hashes["first"]: "blocks.0.weight",
        hashes["changed"]: "blocks.0.weight",
        hashes["second"]: "blocks.1.weight",
    }
    files = {}
    for name, data in named.items():
        files[name] = SyntheticProgram(named=data).write(tmp_path / f"{name}.pte")
    assert "blocks" not in et("inspect", files["before"]).out
    rows = et("diff", files["before"], files["after"], "--json").json["data"]
    assert {row["change"] for row in rows} == {"added", "removed"}
    (tmp_path / "before.link.json").write_text(json.dumps({"titles": titles}))
    out = et("inspect", files["before"]).out
    assert "blocks.0.weight" in out and "aaaaaaaa" not in out
    assert f"blocks.0.weight  {'a' * 64}" in et("inspect", files["before"], "--all").out
    data = et("inspect", files["before"], "--json").json["data"]
    assert {d.get("title", ""): d["name"] for d in data}["blocks.0.weight"] == hashes["first"]
    # One file's names alone pair nothing.
    rows = et("diff", files["before"], files["after"], "--json").json["data"]
    assert {row["change"] for row in rows} == {"added", "removed"}
    (tmp_path / "after.link.json").write_text(json.dumps({"titles": titles}))
    rows = et("diff", files["before"], files["after"], "--json").json["data"]
    assert [(row["name"], row["change"]) for row in rows] == [("blocks.0.weight", "changed")]
    assert rows[0]["bytes_that_differ"] == 9


def test_titles_are_of_one_key() -> None:
    """A weight and its scale have one name; what is still ambiguous keeps its key."""
    data = [
        NamedData(key="k1", sha256="1", size=4, crc32=0, dtype="qcint4", names=("a.weight",)),
        NamedData(key="k2", sha256="2", size=4, crc32=0, dtype="scale", names=("a.weight",)),
        NamedData(
            key="k3", sha256="3", size=4, crc32=0, dtype="float32", names=("b.bias", "c.bias")
        ),
        NamedData(key="k4", sha256="4", size=4, crc32=0, dtype="scale", names=("d",)),
        NamedData(key="k5", sha256="5", size=4, crc32=0, dtype="scale", names=("d",)),
        NamedData(key="e.weight", sha256="6", size=4, crc32=0, names=("e.weight",)),
        NamedData(key="k7", sha256="7", size=4, crc32=0),
    ]
    assert titles(data) == {"k1": "a.weight (qcint4)", "k2": "a.weight (scale)", "k3": "b.bias"}
