"""The table, the conclusion and the page of a divergence."""

from __future__ import annotations

import io
import math
from typing import Any

from etcli.console import Printer
from etcli.measure import divergence, diverging
from etcli.report import divergence as report
from etlower.divergence import Column, Compared, Fall, MethodResult

FALL = Fall("layers.1.mlp", "aten.gelu.default", "net.py:7", 80.0, 3.25, "taps")


def result(fall: Fall | None) -> dict[str, Any]:
    program = Column(
        {
            "": Compared(3.0, 4.0),
            "layers.10": Compared(-math.inf, math.inf),
            "layers.1": Compared(3.5, 2.0),
            "layers.1.mlp": Compared(3.25, 1.5),
        },
        Compared(3.0, 4.0),
        fall,
    )
    exported = Column({name: Compared(math.inf, 0.0) for name in program.modules})
    method = MethodResult(
        {"exported": exported, "program": program}, Compared(3.0, 4.0), {"loop": "in a loop"}
    )
    return {
        "label": "//x:prog",
        "model": "//x:net",
        "recipe": "//r:fp32",
        "drop_db": 10.0,
        "methods": {"forward": diverging._described(method, 2)},
    }


def shown(value: dict[str, Any]) -> str:
    out = io.StringIO()
    divergence.show(value, Printer(out))
    return out.getvalue()


def test_table_names_the_module() -> None:
    text = shown(result(FALL))
    assert (
        "program: the numbers part at module layers.1.mlp (aten.gelu.default, net.py:7): 3.2 dB, "
        in text
    )
    assert "80.0 dB before it." in text
    lines = [line.split()[0] for line in text.splitlines() if "layers" in line][:3]
    assert lines == ["layers.1", "layers.1.mlp", "layers.10"]
    assert "far off" in text
    assert "loop: not compared: in a loop." in text


def test_nothing_is_named() -> None:
    assert "No module is worse than what it is computed from by more than 10 dB." in shown(
        result(None)
    )


def test_page_opens_what_falls() -> None:
    value = result(FALL)
    tree = report.tree(value["methods"]["forward"])
    [layers] = tree["rows"]
    first, tenth = layers["rows"]
    assert (first["name"], first["open"], tenth["open"]) == ("1", True, False)
    assert first["rows"][0]["fallen"]
    html = report.page(value, ("", "now"), [["layers.1", "41 dB"]])
    assert "mlp ◀" in html
    assert "<td>layers.1</td><td>41 dB</td>" in html
    assert "other build" not in report.page(value)
    assert "the numbers part at <code>layers.1.mlp</code>" in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
