"""The page of a measurement of layers. Needs no torch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from etcli.report import sensitivity


def entry(recipe: str, size: int, only: float | None, all_but: float | None) -> dict[str, Any]:
    """Returns the cost of one recipe for a layer."""
    ratios = {"only": only, "all_but": all_but}
    measured = {key: {"sqnr_db": value, "perplexity": None} for key, value in ratios.items()}
    return {"recipe": recipe, "bytes": size, **measured}


def layer(name: str, only: float) -> dict[str, Any]:
    """A layer that a recipe makes smaller by 300 bytes."""
    recipes = [{"recipe": "//r:fp32", "bytes": 400}, entry("//r:int4", 100, only, 12.5)]
    return {"names": [name], "kind": "Linear", "bytes": 400, "layers": [name], "recipes": recipes}


MIXTURES = [(0, 0, 800, None), (0, 1, 500, 31.0), (1, 1, 200, 12.25)]
MEASURED: dict[str, Any] = {
    "label": "//m:tuned",
    "model": "//m:net",
    "recipes": ["//r:fp32", "//r:int4"],
    "text": "",
    "tokens": 0,
    "samples": 3,
    "float": {"bytes": 800, "perplexity": None},
    "all": [{"recipe": "//r:int4", "bytes": 200, "sqnr_db": 12.25, "perplexity": None}],
    "layers": [layer("blocks.0.up", 31.0), layer("blocks.1.<up>", 14.0)],
    "blocks": [],
    "front": [
        {
            "bytes": size,
            "sqnr_db": ratio,
            "perplexity": None,
            "layers": {"blocks.0.up": first, "blocks.1.<up>": second},
        }
        for second, first, size, ratio in MIXTURES
    ],
}
CHOICE = {**MEASURED["front"][1], "bound": {"name": "min_sqnr_db", "value": "30"}}


def test_layers_are_sorted_by_what_they_cost() -> None:
    """The worst one first; names are escaped."""
    html = sensitivity.page(MEASURED)
    rows = re.findall(r"<tr><td><code>(blocks.*?)</code>.*?<td class=\"n\">(.*?)</td>", html, re.S)
    assert rows == [("blocks.1.&lt;up&gt;", "14.0 dB"), ("blocks.0.up", "31.0 dB")]
    assert "<up>" not in html and "http" not in html


def test_the_tree_adds_up_modules() -> None:
    """Bytes, and the worst ratio of a layer in each."""
    html = sensitivity.page(MEASURED)
    words = " ".join(re.sub(r"<[^>]*>", " ", html[html.index("Modules") :]).split())
    assert "model least 14.0 dB, saves 600 B of 800 B" in words
    assert "blocks least 14.0 dB, saves 600 B of 800 B" in words
    assert "0 least 31.0 dB, saves 300 B of 400 B up 31.0 dB" in words


def test_the_choice_is_on_the_front() -> None:
    """One of three points."""
    assert 'class="chosen"' not in sensitivity.page(MEASURED)
    html = sensitivity.page(MEASURED, CHOICE)
    points = re.findall(r"<circle (.*?)><title>(.*?)</title>", html)
    assert [title for _, title in points] == [
        "800 bytes: the same",
        "500 bytes: 31.0 dB",
        "200 bytes: 12.2 dB",
    ]
    assert ['class="chosen"' in attributes for attributes, _ in points] == [False, True, False]
    assert "chosen for min_sqnr_db = 30" in html


def test_a_malformed_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named."""
    file = tmp_path / "x.sensitivity.json"
    file.write_text(json.dumps({"label": "//m:x"}))
    words = ["--sensitivity", str(file), "--html", str(tmp_path / "x.html")]
    assert sensitivity.main(words) == 1
    assert "x.sensitivity.json is damaged: KeyError: 'layers'" in capsys.readouterr().err
