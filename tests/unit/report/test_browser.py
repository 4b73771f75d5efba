"""Reports in a real browser: wide and narrow, light and dark, pointed at.

    bazel test //tests/unit/report:browser_test --test_output=all

Screenshots are in the test's outputs.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium, Window
from etcli.report import app, page
from etcli.report import program as program_report
from synthetic import link_with, program, shared_file
from test_app_page import parts  # noqa: F401  (a fixture)
from test_page import ACCURACY, DELEGATION, FACTS, RUN

DESKTOP, PHONE = Window(1200, 900), Window(500, 900)
DARK = dataclasses.replace(DESKTOP, dark=True)


@pytest.fixture(scope="module")
def browser() -> Chromium:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Chromium(cache / "rules_executorch" / "chromium")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A program's page with all that pages have."""
    weights = {f"net.layers.{n}.wq.weight": bytes([n, 1]) * (3000 + n) for n in range(24)}
    base = program(tmp_path / "base", "//m:base", {}, {"net.shared": b"s" * 40_000})
    shared = shared_file(tmp_path / "f.ptd", "//m:f", base)
    own = {"net.table": b"t" * 30_000}
    lowered = program(tmp_path / "p", "//m:p", own, weights | {"net.shared": b"s" * 40_000})
    linked, _, _ = link_with(lowered, tmp_path / "out", shared)
    slow = json.loads(json.dumps(DELEGATION))
    slow["forward"]["delegates"][0]["flops"] = 100_000
    lowering = {**FACTS, "delegation": slow, "not_quantized": {"net.table": "an embedding " * 20}}
    stages = [{"name": n, "seconds": s} for n, s in (("load", 2.0), ("export", 9), ("lower", 30))]
    run = {**RUN, "accuracy": ACCURACY, "stages": stages}
    described = program_report.describe("//m:p", lowered, lowering, run, dataclasses.asdict(linked))
    path = tmp_path / "report.html"
    path.write_text(page.of_program(described), encoding="utf-8")
    return path


def pictured(browser: Chromium, path: Path, name: str, window: Window) -> None:
    """Keeps a screenshot for people."""
    folder = Path(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", path.parent))
    tall = dataclasses.replace(window, height=2400)
    browser.screenshot(path, folder / f"{name}.png", tall)
    assert (folder / f"{name}.png").stat().st_size > 10_000


def test_a_program(browser: Chromium, report: Path) -> None:
    for name, window in (("desktop", DESKTOP), ("phone", PHONE), ("dark", DARK)):
        pictured(browser, report, f"program_{name}", window)
    leaves = browser.evaluate(report, "document.querySelectorAll('.leaf').length", DESKTOP)
    assert leaves > 24


@pytest.mark.parametrize("window", [DESKTOP, PHONE])
def test_nothing_is_wider_than_the_window(browser: Chromium, report: Path, window: Window) -> None:
    width = browser.evaluate(report, "document.documentElement.scrollWidth", window)
    assert width <= window.width


# Tables that lose columns at the edge of their section.
CUT = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"


def test_tables_fit_a_phone(browser: Chromium, report: Path) -> None:
    assert browser.evaluate(report, CUT, PHONE) == 0


def test_areas_are_bytes(browser: Chromium, report: Path) -> None:
    """As the browser lays them out: twice the bytes take twice the pixels."""
    cells = browser.evaluate(
        report,
        "[...document.querySelectorAll('.leaf')].map(c => {const r = c.getBoundingClientRect();"
        "return [c.title, r.width * r.height]})",
        DESKTOP,
    )
    areas = {title: area for title, area in cells}
    [table] = [area for title, area in areas.items() if "net.table" in title]
    [shared] = [area for title, area in areas.items() if "net.shared" in title]
    assert shared / table == pytest.approx(4 / 3, rel=0.1)


def test_pointing_and_tapping(browser: Chromium, report: Path) -> None:
    captions = browser.evaluate(
        report,
        "(() => {const cell = document.querySelector('.leaf');"
        "const caption = document.querySelector('.caption'); const all = [caption.textContent];"
        "const send = (kind) => cell.dispatchEvent(new PointerEvent(kind, {bubbles: true}));"
        "send('pointerover'); all.push(caption.textContent);"
        "send('click'); document.querySelector('.map').dispatchEvent(new PointerEvent("
        "'pointerleave')); all.push(caption.textContent);"
        "send('click'); document.querySelector('.map').dispatchEvent(new PointerEvent("
        "'pointerleave')); all.push(caption.textContent); return [all, cell.title]})()",
        DESKTOP,
    )
    (initial, pointed, kept, left), title = captions
    assert initial == left == "Areas are bytes. Point at one, or tap it."
    assert pointed == kept == title


def test_light_and_dark(browser: Chromium, report: Path) -> None:
    expression = (
        "[...document.querySelectorAll('body, section, h1, .leaf')].map(e => "
        "[getComputedStyle(e).color, getComputedStyle(e).backgroundColor])"
    )
    light, dark = (browser.evaluate(report, expression, w) for w in (DESKTOP, DARK))
    assert brightness(light[0][1]) > 200 > 60 > brightness(dark[0][1])
    for text, back in (light[0], dark[0], *light[-3:], *dark[-3:]):
        assert abs(brightness(text) - brightness(back)) > 60


def brightness(color: str) -> float:
    """Of "rgb(1, 2, 3)", from 0 to 255."""
    red, green, blue = (float(n) for n in color[color.index("(") + 1 : -1].split(",")[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_an_app(browser: Chromium, parts: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "app.html"
    path.write_text(app.of_app(app.describe(**parts)), encoding="utf-8")
    for name, window in (("desktop", DESKTOP), ("phone", PHONE)):
        pictured(browser, path, f"app_{name}", window)
    assert browser.evaluate(path, "document.documentElement.scrollWidth", PHONE) <= PHONE.width
    assert browser.evaluate(path, CUT, PHONE) == 0
