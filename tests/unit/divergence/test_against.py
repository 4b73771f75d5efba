"""Divergences of one program, built by two exporters."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etcli.console import Printer
from etcli.measure import against


def saved(executorch: str = "1.4.1") -> dict[str, Any]:
    """A divergence of two modules."""
    return {
        "label": "//x:prog",
        "executorch": executorch,
        "program": {
            "bytes": 4000,
            "cpu_ms": 1.5,
            "methods": {
                "forward": {
                    "operators": ["aten::add.out"],
                    "backends": ["XnnpackBackend"],
                    "delegates": 1,
                    "instructions": 4,
                }
            },
        },
        "methods": {
            "forward": {
                "outputs": {"program": {"sqnr_db": 120.0, "largest_difference": 0.1, "note": ""}},
                "modules": [
                    {"name": "first", "program": {"sqnr_db": None, "note": "the same"}},
                    {"name": "second", "program": {"sqnr_db": 120.0, "note": ""}},
                    {"name": "indices", "program": {"sqnr_db": None, "note": "no ratio"}},
                    {"name": "left_out"},
                ],
            }
        },
    }


def shown(changed: dict[str, Any]) -> str:
    out = io.StringIO()
    against.show(changed, Printer(out))
    return out.getvalue()


def test_the_same_program() -> None:
    changed = against.changes(saved(), saved("1.5.1"))
    method = changed["methods"]["forward"]
    assert (method["outputs"], method["modules"]) == ([], [])
    assert "delegates" not in method
    assert "No module is further from the eager model than before." in shown(changed)


def test_what_changed_is_named() -> None:
    now = copy.deepcopy(saved("1.5.1"))
    method = now["methods"]["forward"]
    method["outputs"]["program"]["sqnr_db"] = 40.0
    method["modules"][0]["program"] = {"sqnr_db": 90.0, "note": ""}
    method["modules"][1]["program"] = {"sqnr_db": 41.0, "note": ""}
    now["program"]["bytes"] = 5000
    now["program"]["methods"]["forward"] |= {
        "operators": ["aten::mul.out"],
        "backends": [],
        "delegates": 0,
    }
    changed = against.changes(saved(), now)
    rows = {row["name"]: row for row in changed["methods"]["forward"]["modules"]}
    assert sorted(rows) == ["first", "second"]
    text = shown(changed)
    for part in ("1.4.1", "1.5.1", "+1.0 kB", "aten::add.out", "aten::mul.out", "-79.0 dB"):
        assert part in text, text
    assert "forward: module first lost most: the same before, 90.0 dB now." in text


def test_methods_of_one_program_only() -> None:
    now = copy.deepcopy(saved())
    now["methods"]["encode"] = now["methods"].pop("forward")
    text = shown(against.changes(saved(), now))
    assert 'The method "encode" is new.' in text
    assert 'The method "forward" is gone.' in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value.pop("program"), "program"),
        (lambda value: value["program"].update(bytes="many"), "program.bytes"),
        (lambda value: value["methods"]["forward"].update(modules={}), "modules"),
    ],
)
def test_other_files_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    value, path = saved(), tmp_path / "before.json"
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(BuildError, match=rf"before.json is not a saved divergence: .*{words}"):
        against.read(path)
