"""What a report says of shared data and of what is stored twice. Needs no torch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from etlink import report
from etlink.lowered import Index
from made_up import empty_index, link_with, program, shared_file

FACTS: dict[str, Any] = {
    "model": "//m:model",
    "recipe": {"label": "//r:fp32", "name": "fp32"},
    "not_quantised": {},
    "quantised_layers": 0,
    "delegation": {},
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
        "inputs": 3,
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
    found = report.duplicated(
        index(
            method("prefill", "TOSABackend", {"a": 1000}, False),
            method("decode", "TOSABackend", {"b": 900, "c": 50}, False),
        )
    )
    assert found == [
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
    made = report.make("//m:task", task.index, FACTS, RUN, dataclasses.asdict(linked))
    assert made["label"] == "//m:task"
    assert made["bytes"]["shared"] == 4096 + 64
    assert made["bytes"]["own"] == linked.program_bytes
    [one] = made["shared"]
    assert (one["label"], one["bytes"], one["keys"]) == ("//m:foundation", 4096 + 64, 2)
    [left] = made["not_shared"]
    assert (left["name"], left["bytes"]) == ("lora", 8)
    assert left["reason"] == "no shared file has a weight of this name"
    page = report.page(made)
    for text in ("//m:foundation", "Not shared", "lora", "no shared file has a weight"):
        assert text in page
    assert "Stored more than once" not in page


def test_the_page_warns_of_the_weight_cache_and_of_copies(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    linked = dataclasses.asdict(link_with(base, tmp_path / "out", shared)[0])
    linked["manifest"]["weight_cache"] = {"safe": False, "reasons": ["a and b have equal bytes"]}
    made = report.make("//m:task", base.index, FACTS, RUN, linked)
    made["duplicated"] = report.duplicated(
        index(*[method(n, "VGF", {n: 2_000_000}, False) for n in ("prefill", "decode")])
    )
    page = report.page(made)
    assert "a and b have equal bytes" in page
    assert "VGF puts weights into the payload of each method" in page
    assert "Up to 2.0 MB of that are there twice." in page


def test_delegation_and_accuracy(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    facts, run = {**FACTS, "delegation": DELEGATION}, {**RUN, "accuracy": ACCURACY}
    made = report.make("//m:task", base.index, facts, run, linked)
    assert made["delegation"]["forward"]["delegated"]["flops_percent"] == 95.0
    assert made["accuracy"] == ACCURACY
    assert made["lowering"] == RUN
    page = report.page(made)
    for text in (
        "95.0% of 2.0 MFLOP and\n75.0% of 4 nodes are delegated",
        "<td>XnnpackBackend</td>",
        "<td>is &lt;unknown&gt; (float32 [2])<br>",
        "41.3 dB",
        "the same as eager",
        "not compared: RuntimeError: no kernel",
    ):
        assert text in page, text
    plain = report.page(report.make("//m:task", base.index, FACTS, RUN, linked))
    assert "Accuracy of the quantisation" not in plain
