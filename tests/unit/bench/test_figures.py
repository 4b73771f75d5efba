"""Pages say what the benchmarks' results say."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import figures
import own_layers_table
import pytest
from etllm import variants

_SPEEDS = variants.SPEEDS
_PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
_MACHINE = {"cores": 2, "memory_gib": 24, "date": "2026-01-02"}
_RUNS: list[dict[str, Any]] = [
    {"command": "./bazelw build //x", "seconds": 119.4},
    {
        "command": "./bazelw test //...",
        "seconds": 1800.0,
        "tests": 300,
        "folders": [{"folder": "tests/unit", "tests": 200, "seconds": 600.0}],
    },
    {"command": "./bazelw test //tests:fast", "seconds": 99.0, "tests": 30},
]
_RESULTS = {"commands": {"machine": _MACHINE, "commands": _RUNS}}


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_pages_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    measured = figures.results(Path("tests/bench/results"))
    assert figures.updated(str(page), text, measured) == text, "run bazel run //docs:update"


def test_the_report_has_the_benchmarks_figures() -> None:
    """And the variant that et_llm takes is ahead of upstream's program, by all columns together."""
    measured = figures.results(Path("tests/bench/results"))["speed"]
    copy = Path("tools/etllm/measured.json").read_text(encoding="utf-8")
    assert copy == variants.copied(measured), "run bazel run //docs:update"
    rows = {(row["variant"], row["context"]): row for row in variants.measured()["programs"]}
    taken = variants.chosen(["xnnpack"])
    for other, context in rows:
        if other == "export_llm":
            pairs = [(rows[taken, context][key], rows[other, context][key]) for key in _SPEEDS]
            assert math.prod(ours / theirs for ours, theirs in pairs) > 1, context


def test_layers_of_et_llm_are_ahead_of_those_that_they_replace() -> None:
    """Or 5 % behind at most, in each column."""
    measured = figures.results(Path("tests/bench/results"))["own_layers"]
    found = list(own_layers_table.pairs(measured))
    models = {"Llama-3.2-1B", "Qwen3-0.6B", "SmolLM2-135M"}
    measured_pairs = {(own["model"], own["context"]) for own, _ in found}
    assert measured_pairs == set(itertools.product(models, (512, 2048)))
    for own, theirs in found:
        where = own["model"], own["context"]
        for key in _SPEEDS:
            assert own[key] >= 0.95 * theirs[key], (*where, key)
        for key in own_layers_table.COSTS:
            assert own[key] <= 1.05 * theirs[key], (*where, key)


@pytest.mark.parametrize(
    ("backends", "variant", "why"),
    [
        (["xnnpack"], "plain", "that has tokens. Measured"),
        (["portable", "xnnpack"], "plain", "that has tokens. Measured"),
        (["vulkan", "xnnpack"], "whole_cache", ", as programs for vulkan have fixed sizes. Meas"),
        ([], "whole_cache", ", as recipes of the target's own may fix sizes. Measured"),
    ],
)
def test_the_report_names_the_variant(backends: list[str], variant: str, why: str) -> None:
    assert variants.chosen(backends) == variant
    note = variants.note(variant, backends, 3000)
    assert note.startswith(f'Attention: variant "{variant}": a call reads the ') and why in note
    machine = variants.measured()["machine"]
    assert f"context of 2,048 (this program: 3,000) on {machine['cores']} cores" in note
    rows = [row for row in variants.measured()["programs"] if row["context"] == 2048]
    for row in rows:
        assert f'"{row["variant"]}" (' in note
        assert f"writes {row['write']:,.0f} and {row['write_full']:,.0f}" in note


def test_sections_are_replaced() -> None:
    """Only what is between the comments."""
    page = "a\n<!-- figures: tests -->\nold\n<!-- end of figures -->\nb\n"
    assert figures.updated("p.md", page, _RESULTS).splitlines() == [
        "a",
        "<!-- figures: tests -->",
        "| command | tests | time |",
        "| --- | --- | --- |",
        "| `./bazelw test //...` | 300 | 30 min |",
        "| `./bazelw test //tests:fast` | 30 | 99 s |",
        "",
        "| folder | tests | sum of their times |",
        "| --- | --- | --- |",
        "| `tests/unit` | 200 | 10 min |",
        "",
        "Times: on 2 cores with 24 GiB of memory, 2026-01-02; two tests run at once.",
        "<!-- end of figures -->",
        "b",
    ]


def test_sharing_is_compared_with_one_program() -> None:
    """The total is that of the listed files."""
    files = {"foundation.ptd": 1000, "base.pte": 20, "assistant.pte": 30, "summarizer.pte": 30}
    files |= {"assistant.ptd": 4, "summarizer.ptd": 4}
    table = figures.sharing({"sizes": {"shared": files, "program_bytes": 1015}})
    assert table.splitlines()[-2:] == [
        "| **three programs on one foundation** | **1,058** |",
        "| the base alone, with its weights in the `.pte` | 1,015 |",
    ]


def test_a_build_without_actions_says_so() -> None:
    cases = {
        "nothing": {"title": "nothing", "actions": {"EtLower": 0, "EtLink": 0}},
        "adapter": {"title": "an adapter", "actions": {"EtAdapt": 1, "EtLower": 0, "EtLink": 2}},
    }
    assert figures.rebuilds({"rebuilds": {"cases": cases}}).splitlines()[2:] == [
        "| nothing | none |",
        "| an adapter | 1 EtAdapt, 2 EtLink |",
    ]


def test_commands_have_their_times() -> None:
    assert figures.commands(_RESULTS).splitlines() == [
        "<!-- not run: they are of this repository; //tests/bench:commands runs them. -->",
        "```sh",
        "./bazelw build //x   # 2 min",
        "./bazelw test //...  # 30 min",
        "```",
        "",
        "Times: on 2 cores with 24 GiB of memory, 2026-01-02.",
    ]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- figures: sizes -->\n<!-- end of figures -->\n", 'unknown section "sizes". Avail'),
        ("<!-- figures: tests -->\n", 'a "figures" comment has no end'),
        ("<!-- end of figures -->\n", 'a "figures" comment has no end'),
    ],
)
def test_wrong_sections(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"p.md: {message}"):
        figures.updated("p.md", page, _RESULTS)
