"""`et verify`: whether an app or a program is what was built. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Et, Linked


def test_a_whole_app(et: Et, app: Path) -> None:
    result = et("verify", app)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "//a:app: 3 files, 1 programs and 1 keys of data files are what was built.\n"
    )
    assert et("verify", app, "--json").json["ok"] is True


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        ("data/f.ptd", "flip", "data/f.ptd: sha256: got "),
        ("programs/p.pte", "cut", "programs/p.pte: size: got "),
        ("runner", "remove", "runner is missing; manifest.json lists it."),
        ("data/f.ptd", "remove", 'The program "p" needs data/f.ptd, which is missing.'),
        ("extra.txt", "add", "extra.txt is not listed in manifest.json."),
        ("runner", "mode", "runner cannot be executed: it has lost its permissions."),
    ],
)
def test_what_is_wrong_is_named(
    et: Et, app: Path, file: str, change: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = app / file
    data = path.read_bytes() if path.exists() else b""
    if change == "flip":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif change == "cut":
        path.write_bytes(data[:-1])
    elif change == "remove":
        path.unlink()
    elif change == "mode":
        # Even root's permission to execute goes with the last bit.
        path.chmod(0o644)
    else:
        path.write_text("more")
    result = et("verify", app)
    assert result.code == 1
    assert f"wrong: {problem}" in result.out
    problems = et("verify", app, "--json").json["problems"]
    assert any(p.startswith(problem) for p in problems)


def test_all_problems_are_listed(et: Et, app: Path) -> None:
    (app / "runner").unlink()
    (app / "extra.txt").write_text("more")
    assert len(et("verify", app, "--json").json["problems"]) == 2


def test_keys_that_are_missing(et: Et, app: Path) -> None:
    """The manifest agrees with the files, and the program wants other ones."""
    file = app / "manifest.json"
    own = json.loads(file.read_text())
    keys = own["files"]["data/f.ptd"]["keys"]
    keys.append(keys[0] | {"key": "other"})
    file.write_text(json.dumps(own))
    result = et("verify", app)
    assert result.code == 1
    assert 'it has no key "other"' in result.out


def test_a_program_with_its_manifest(et: Et, linked: Linked) -> None:
    assert et("verify", linked.program).code == 0
    linked.shared.unlink()
    result = et("verify", linked.program)
    assert result.code == 1
    assert "f.ptd is missing: " in result.out
    assert " needs the data of //m:f; put it there or name it with --data." in result.out


def test_without_a_manifest(et: Et, linked: Linked, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.pte"
    lonely.write_bytes(linked.program.read_bytes())
    result = et("verify", lonely)
    assert result.code == 2
    assert "lonely.pte has no manifest beside it" in result.err
    (tmp_path / "empty").mkdir()
    assert et("verify", tmp_path / "empty").code == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1, "files": {"a": 3}, "binary": "x"}'])
def test_a_manifest_that_is_none(et: Et, app: Path, text: str) -> None:
    (app / "manifest.json").write_text(text)
    result = et("verify", app)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    assert "manifest.json" in result.err
