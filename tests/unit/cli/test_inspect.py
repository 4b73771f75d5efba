"""`et inspect`: what is in a file, and what is missing to run it. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Et, Linked
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
