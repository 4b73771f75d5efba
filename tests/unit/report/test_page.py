"""What a report and its page say. Needs no torch."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from etlink.lowered import Index
from etreport import page as pages
from etreport import program as report
from etreport.findings import findings
from synthetic import empty_index, link_with, program, shared_file, tree

FACTS: dict[str, Any] = {
    "model": "//m:model",
    "recipe": {"label": "//r:fp32", "name": "fp32", "overrides": []},
    "not_quantized": {},
    "notes": [],
    "quantized_layers": 0,
    "delegation": {},
    "without_kernel": [],
}
RUN: dict[str, Any] = {"stages": [{"name": "lower", "seconds": 1.5}], "peak_memory_bytes": 7}

DELEGATION: dict[str, Any] = {
    "forward": {
        "nodes": 4,
        "flops": 2_000_000,
        "delegates": [{"backend": "XnnpackBackend", "nodes": 3, "flops": 1_900_000}],
        "left": [
            {
                "operator": "aten.sin.default",
                "nodes": 1,
                "flops": 100_000,
                "why": [{"reason": "is <unknown>", "nodes": 1, "example": "float32 [2]"}],
            }
        ],
    }
}
ACCURACY: dict[str, Any] = {
    "forward": {
        "outputs": [{"sqnr_db": 41.26}, {"sqnr_db": None, "note": "the same as eager"}],
    },
    "other": {"skipped": "RuntimeError: no kernel"},
}


def method(name: str, backend: str, blobs: dict[str, int], named_data: bool) -> dict[str, Any]:
    """A method with the payloads of one backend."""
    payloads = {backend: {"blobs": blobs, "named_data": named_data}}
    parts: dict[str, list[Any]] = {"inputs": [], "outputs": [], "backends": [], "operators": []}
    return {"name": name, "payloads": payloads, "delegates": len(blobs), **parts}


def index(*methods: dict[str, Any]) -> Index:
    """An index with methods alone."""
    return empty_index(frame="", methods=methods)


def test_a_backend_that_keeps_weights_in_its_payloads_is_named() -> None:
    duplicates = report.duplicated(
        index(
            method("prefill", "TOSABackend", {"a": 1000}, False),
            method("decode", "TOSABackend", {"b": 900, "c": 50}, False),
        )
    )
    assert duplicates == [
        {"backend": "TOSABackend", "methods": {"prefill": 1000, "decode": 950}, "bytes": 950}
    ]


def test_what_is_there_once_is_not_named() -> None:
    named = [method(n, "XnnpackBackend", {n: 10}, True) for n in ("prefill", "decode")]
    assert report.duplicated(index(*named)) == []
    # The same payload in both methods is one segment of the file.
    same = [method(n, "TOSABackend", {"a": 10}, False) for n in ("prefill", "decode")]
    assert report.duplicated(index(*same)) == []
    assert report.duplicated(index(method("forward", "TOSABackend", {"a": 10}, False))) == []


def test_a_report_lists_what_is_shared_and_what_is_not(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {"embedding": b"e" * 64}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    task = program(
        tmp_path / "task",
        "//m:task",
        {"embedding": b"e" * 64},
        {"wq": b"q" * 4096, "lora": b"l" * 8},
    )
    linked, _, _ = link_with(task, tmp_path / "out", shared)
    described = report.describe("//m:task", task.index, FACTS, RUN, dataclasses.asdict(linked))
    assert described["label"] == "//m:task"
    assert described["bytes"]["shared"] == 4096 + 64
    assert described["bytes"]["own"] == linked.program_bytes
    [entry] = described["shared"]
    assert (entry["label"], entry["bytes"], entry["keys"]) == ("//m:foundation", 4096 + 64, 2)
    [left] = described["not_shared"]
    assert (left["name"], left["bytes"]) == ("lora", 8)
    assert left["reason"] == "no shared file has a weight of this name"
    page = pages.of_program(described)
    for text in ("//m:foundation", "Not shared", "lora", "no shared file has a weight"):
        assert text in page
    assert "stored twice" not in page
    assert 'id="warnings"' not in page


def test_the_page_warns_of_the_weight_cache_and_of_copies(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    linked = dataclasses.asdict(link_with(base, tmp_path / "out", shared)[0])
    linked["manifest"]["weight_cache"] = {"safe": False, "reasons": ["a and b have equal bytes"]}
    described = report.describe("//m:task", base.index, FACTS, RUN, linked)
    described["duplicated"] = report.duplicated(
        index(*[method(n, "VGF", {n: 2_000_000}, False) for n in ("prefill", "decode")])
    )
    page = pages.of_program(described)
    assert "XNNPACK&#39;s weight cache must stay off: a and b have equal bytes." in page
    assert "VGF puts weights into the payload of each method" in page
    assert "Up to 2.0 MB of that are stored twice." in page


def test_delegation_and_accuracy(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    lowering, run = {**FACTS, "delegation": DELEGATION}, {**RUN, "accuracy": ACCURACY}
    described = report.describe("//m:task", base.index, lowering, run, linked)
    assert described["delegation"]["forward"]["delegated"]["flops_percent"] == 95.0
    assert described["accuracy"] == ACCURACY
    assert described["lowering"] == {**RUN, "path": {}}
    page = pages.of_program(described)
    for text in (
        "95.0% of 2.0 MFLOP and\n75.0% of 4 nodes are delegated",
        "<td>XnnpackBackend</td>",
        "<td>is &lt;unknown&gt; (float32 [2])<br>",
        "41.3 dB",
        "the same as eager",
        "not compared: RuntimeError: no kernel",
    ):
        assert text in page, text
    plain = pages.of_program(report.describe("//m:task", base.index, FACTS, RUN, linked))
    assert "Accuracy of the quantization" not in plain


def test_contents_are_where_the_bytes_are(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {"embedding": b"e" * 64}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    weights = {"embedding": b"e" * 64, "head": b"h" * 400}
    task = program(tmp_path / "task", "//m:task", weights, {"wq": b"q" * 4096, "lora": b"l" * 80})
    linked, path, data = link_with(task, tmp_path / "out", shared, separate=True)
    described = report.describe("//m:task", task.index, FACTS, RUN, dataclasses.asdict(linked))
    files = {f["file"]: f for f in described["contents"]}
    assert {n: (f["kind"], f["label"]) for n, f in files.items()} == {
        "p.pte": ("own", "//m:task"),
        "p.ptd": ("own", "//m:task"),
        "f.ptd": ("shared", "//m:foundation"),
    }
    assert files["p.pte"]["bytes"] == path.stat().st_size
    assert files["p.ptd"]["bytes"] == data.stat().st_size
    assert files["f.ptd"]["bytes"] == 4096 + 64
    names = {d["name"]: d for f in files.values() for g in f["groups"] for d in g["data"]}
    assert names["head"] == {"name": "head", "bytes": 400, "dtype": "float32", "shape": [100]}
    assert names["lora"]["bytes"] == 80
    page = pages.of_program(described)
    assert "f.ptd › delegates weights › wq, float32 [4096]: 4.1 kB" in page


def test_warnings_come_first(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    little = json.loads(json.dumps(DELEGATION))
    little["forward"]["delegates"][0]["flops"] = 400_000
    lowering = {**FACTS, "delegation": little, "not_quantized": {"head": "too <small>"}}
    accuracy = {"forward": {"outputs": [{"sqnr_db": 12.34}]}}
    described = report.describe(
        "//m:task", base.index, lowering, {**RUN, "accuracy": accuracy}, linked
    )
    texts = [f["text"] for f in findings(described)]
    assert texts == [
        "Quantization leaves 12.3 dB in output 0 of forward; 20 dB are a tenth of noise.",
        "20.0% of 2.0 MFLOP in forward are delegated; most of the rest is aten.sin.default.",
        "A layer was left unquantized: head.",
    ]
    page = pages.of_program(described)
    assert page.index("3 to look at") < page.index('id="bytes"')
    assert "too &lt;small&gt;" in page
    for finding in findings(described):
        assert f'id="{finding["section"]}"' in page


def test_a_page_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {"<b>": b"e" * 64}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    described = report.describe("//m:task", base.index, FACTS, RUN, linked)
    page = pages.of_program(described)
    assert page == pages.of_program(json.loads(json.dumps(described)))
    # Nothing from anywhere else, whether it is a script, a font or a picture.
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+|@import|url\(|<link|<img|src=", page) == []
    assert "&lt;b&gt;" in page and "<b>:" not in page


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    files = {"timings": tmp_path / "run.json", "summary": tmp_path / "link.json"}
    files["timings"].write_text(json.dumps(RUN))
    files["summary"].write_text(json.dumps(linked))
    (base.folder / "lowering.json").write_text(json.dumps(FACTS))
    out = {"json": tmp_path / "r.json", "html": tmp_path / "r.html"}
    arguments = ["--label", "//m:task", "--lowered", str(base.folder)]
    arguments += [word for n, p in (files | out).items() for word in (f"--{n}", str(p))]
    assert report.main(arguments) == 0
    assert json.loads(out["json"].read_text())["label"] == "//m:task"
    assert out["html"].read_text().startswith("<!doctype html>")
    before = tree(tmp_path)
    files["summary"].write_text("{}")
    assert report.main(arguments) == 1
    printed = capsys.readouterr()
    assert "link.json: one of them is damaged: KeyError" in printed.err
    assert tree(tmp_path) == before | {"link.json": b"{}"}
