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
            "methods": {
                "forward": {
                    "operators": ["aten::add.out"],
                    "backends": ["XnnpackBackend"],
                    "delegates": 1,
                    "instructions": 4,
                    "ms": 1.5,
                    "modules": [
                        {
                            "name": "first",
                            "bytes": 1000,
                            "ms": 0.5,
                            "operators": {"XnnpackBackend": ["aten.linear.default"]},
                        },
                        {
                            "name": "second",
                            "bytes": 2000,
                            "ms": 0.5,
                            "operators": {"kernels": ["aten::add.out"]},
                        },
                    ],
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


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return against.changes(against.of(before), against.of(after))


def test_the_same_program() -> None:
    found = changed(saved(), saved("1.5.1"))
    method = found["methods"]["forward"]
    assert (method["outputs"], method["modules"]) == ([], [])
    assert not {"delegates", "ms"} & method.keys()
    assert "No module is further from the eager model than before." in shown(found)


def test_what_changed_is_named() -> None:
    now = copy.deepcopy(saved("1.5.1"))
    method = now["methods"]["forward"]
    method["outputs"]["program"]["sqnr_db"] = 40.0
    method["modules"][0]["program"] = {"sqnr_db": 90.0, "note": ""}
    method["modules"][1]["program"] = {"sqnr_db": 41.0, "note": ""}
    now["program"]["bytes"] = 5000
    built = now["program"]["methods"]["forward"]
    built |= {"operators": ["aten::mul.out"], "backends": [], "delegates": 0, "ms": 2.5}
    found = changed(saved(), now)
    rows = {row["name"]: row for row in found["methods"]["forward"]["modules"]}
    assert sorted(rows) == ["first", "second"]
    text = shown(found)
    for part in ("1.4.1", "1.5.1", "+1.0 kB", "aten::add.out", "aten::mul.out", "-79.0 dB"):
        assert part in text, text
    assert "+1.000 ms" in text
    assert "forward: module first lost most: the same before, 90.0 dB now." in text


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        ({"bytes": 1500}, {"bytes": {"before": 1000, "after": 1500}}, "1.0 kB 1.5 kB"),
        ({"ms": 0.75}, None, ""),
        ({"ms": None}, None, ""),
        (
            {"operators": {"kernels": ["aten.linear.default"]}},
            {"backends": {"before": ["XnnpackBackend"], "after": ["kernels"]}},
            "runs in XnnpackBackend kernels",
        ),
        (
            {"operators": {"XnnpackBackend": ["aten.linear.default"] * 2}},
            {"operators": {"added": ["aten.linear.default"], "removed": []}},
            "operator aten.linear.default added",
        ),
    ],
)
def test_what_a_module_became(change: Any, expected: Any, words: str) -> None:
    now = copy.deepcopy(saved("1.5.1"))
    now["program"]["methods"]["forward"]["modules"][0] |= change
    found = changed(saved(), now)
    modules = found["methods"]["forward"]["modules"]
    assert modules == ([{"name": "first", **expected}] if expected else [])
    assert words in " ".join(shown(found).split())


@pytest.mark.parametrize(("now", "is_listed"), [(0.75, True), (0.53, False)])
def test_time_of_modules_where_the_methods_changed(now: float, is_listed: bool) -> None:
    after = copy.deepcopy(saved("1.5.1"))
    after["program"]["methods"]["forward"]["ms"] = 2.5
    after["program"]["methods"]["forward"]["modules"][0]["ms"] = now
    found = changed(saved(), after)
    assert bool(found["methods"]["forward"]["modules"]) == is_listed
    assert ("+0.250 ms" in shown(found)) == is_listed


def test_modules_of_one_build_only() -> None:
    now = copy.deepcopy(saved("1.5.1"))
    gone = now["program"]["methods"]["forward"]["modules"].pop()
    [row] = changed(saved(), now)["methods"]["forward"]["modules"]
    assert row["operators"] == {"added": [], "removed": ["aten::add.out"]}
    assert row["bytes"] == {"before": gone["bytes"], "after": 0}
    # Of a program without a report, nothing is known of modules.
    now["program"]["methods"]["forward"]["modules"] = []
    assert changed(saved(), now)["methods"]["forward"]["modules"] == []


def test_methods_of_one_program_only() -> None:
    now = copy.deepcopy(saved())
    now["methods"]["encode"] = now["methods"].pop("forward")
    text = shown(changed(saved(), now))
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
