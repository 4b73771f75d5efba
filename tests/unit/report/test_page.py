"""Report and its page. Needs no torch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from etcli.report import page as pages
from etcli.report import program as report
from etcli.report.findings import findings
from etlink.lowered import Lowered
from synthetic import empty_index, link_with, program, shared_file, tree

FACTS: dict[str, Any] = {
    "model": "//m:model",
    "recipe": {"label": "//r:fp32", "name": "fp32", "overrides": []},
    "not_quantized": {},
    "notes": [],
    "calls": {},
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


def lowered(folder: Path, methods: dict[str, list[bytes]], named_data: bool = False) -> Lowered:
    """A program of these payloads for a backend."""
    program(folder, "//m:program", {}, {"table": b"t" * 64})
    described = []
    for name, payloads in methods.items():
        blobs = {hashlib.sha256(payload).hexdigest(): payload for payload in payloads}
        for sha256, payload in blobs.items():
            (folder / "blobs" / sha256).write_bytes(payload)
        sizes = {sha256: len(payload) for sha256, payload in blobs.items()}
        described.append(method(name, "TOSABackend", sizes, named_data))
    return Lowered(folder, empty_index(frame="", methods=tuple(described)))


WEIGHTS = random.Random(0).randbytes(10_000)


def test_weights_that_methods_have_in_their_payloads_are_counted(tmp_path: Path) -> None:
    prefill = [b"tables" * 40 + WEIGHTS[:6000] + b"more" * 50 + WEIGHTS[6000:]]
    decode = [b"tab" + b"\0" * 501 + WEIGHTS[4000:], bytes(4096)]
    (found,) = report.duplicated(lowered(tmp_path, {"prefill": prefill, "decode": decode}))
    assert found["backend"] == "TOSABackend"
    assert found["methods"] == {"prefill": 10_440, "decode": 504 + 6000 + 4096}
    # Whole blocks of each of both runs.
    assert 6000 - 4 * 64 < found["bytes"] <= 6000


def test_what_is_there_once_is_not_named(tmp_path: Path) -> None:
    both = ("prefill", "decode")
    named = {name: [name.encode() + WEIGHTS] for name in both}
    assert report.duplicated(lowered(tmp_path / "named", named, named_data=True)) == []
    # The same payload in both methods is one segment of the file.
    assert report.duplicated(lowered(tmp_path / "same", {name: [WEIGHTS] for name in both})) == []
    assert report.duplicated(lowered(tmp_path / "one", {"forward": [WEIGHTS, WEIGHTS[1:]]})) == []
    others = {"prefill": [WEIGHTS[:5000], b""], "decode": [WEIGHTS[5000:]]}
    assert report.duplicated(lowered(tmp_path / "others", others)) == []


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
    described = report.describe("//m:task", task, FACTS, RUN, dataclasses.asdict(linked))
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
    assert "that another method has" not in page
    assert 'id="warnings"' not in page


def test_the_page_warns_of_the_weight_cache_and_of_copies(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    linked = dataclasses.asdict(link_with(base, tmp_path / "out", shared)[0])
    (loaded,) = linked["manifest"]["programs"].values()
    loaded["weight_cache"]["reasons"] = ["a and b have equal bytes"]
    described = report.describe("//m:task", base, FACTS, RUN, linked)
    copies = {name: [name.ljust(8).encode() + WEIGHTS * 200] for name in ("prefill", "decode")}
    described["duplicated"] = report.duplicated(lowered(tmp_path / "vgf", copies))
    page = pages.of_program(described)
    assert "XNNPACK&#39;s weight cache must stay off: a and b have equal bytes." in page
    assert "TOSABackend reads weights from its payloads only, so each method stores its own" in page
    assert "2.0 MB of that are bytes that another method has, too." in page


def test_estimates_of_a_compiler(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    estimate = {"accelerator": "<npu>", "clock_hz": 500_000_000, "cycles": 1_250_000}
    estimate |= {"seconds": 0.0025, "sram_bytes": 8192, "sram_read_write_bytes": 5_000_000}
    delegate = {"backend": "NpuBackend", "nodes": 3, "flops": 9, "estimate": estimate}
    delegation = {"forward": {"nodes": 3, "flops": 9, "delegates": [delegate] * 2, "left": []}}
    described = report.describe("//m:t", base, {**FACTS, "delegation": delegation}, RUN, linked)
    assert described["estimates"]["forward"]["cycles"] == 2_500_000
    page = pages.of_program(described)
    for text in (
        '<td>time</td><td class="n">5.000 ms</td>',
        '<td>sram</td><td class="n">8.2 kB</td>',
        '<td>sram traffic</td><td class="n">10.0 MB, 2.0 GB/s</td>',
        "accelerator: &lt;npu&gt;<br>clock: 500 MHz<br>cycles: 1,250,000<br>",
    ):
        assert text in page, text
    plain = report.describe("//m:t", base, {**FACTS, "delegation": DELEGATION}, RUN, linked)
    assert "Estimates of the compiler" not in pages.of_program(plain)


def test_delegation_and_accuracy(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    lowering, run = {**FACTS, "delegation": DELEGATION}, {**RUN, "accuracy": ACCURACY}
    described = report.describe("//m:task", base, lowering, run, linked)
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
    plain = pages.of_program(report.describe("//m:task", base, FACTS, RUN, linked))
    assert "Accuracy of the quantization" not in plain


def test_contents_are_where_the_bytes_are(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {"embedding": b"e" * 64}, {"wq": b"q" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:foundation", base)
    weights = {"embedding": b"e" * 64, "head": b"h" * 400}
    task = program(tmp_path / "task", "//m:task", weights, {"wq": b"q" * 4096, "lora": b"l" * 80})
    linked, path, data = link_with(task, tmp_path / "out", shared, separate=True)
    described = report.describe("//m:task", task, FACTS, RUN, dataclasses.asdict(linked))
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


def test_bytes_by_module(tmp_path: Path) -> None:
    """A scale belongs to the module of its weight; a module need not be called to have weights."""
    weights = {"net.fc.weight": b"w" * 400, "net.table": b"t" * 40, "alone.bias": b"a" * 8}
    named = {
        "net.fc.weight.scale": b"s" * 64,
        "_net_fc_weight_fused_bn": b"f" * 6,
        "net_fc_weight_bias_fused_bn": b"f" * 2,
    }
    lowered = program(tmp_path / "base", "//m:base", weights, named)
    nodes = [["net.fc", "aten.linear.default", 1]]
    calls = {"forward": {"kernels": {"0": "net"}, "delegates": {"1": nodes}}}
    linked = dataclasses.asdict(link_with(lowered, tmp_path / "out")[0])
    described = report.describe("//m:task", lowered, {**FACTS, "calls": calls}, RUN, linked)
    found = described["modules"]
    assert found["bytes"] == {"net": 40, "net.fc": 472, "alone": 8}
    assert found["calls"] == calls
    assert found["unnamed_bytes"] == 0


def test_warnings_come_first(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    little = json.loads(json.dumps(DELEGATION))
    little["forward"]["delegates"][0]["flops"] = 400_000
    lowering = {**FACTS, "delegation": little, "not_quantized": {"head": "too <small>"}}
    weak = [{"output": 0, "text": "dim 1, rows 4 to 8: constant 0"}]
    accuracy = {"forward": {"outputs": [{"sqnr_db": 12.34}], "weak": weak}}
    described = report.describe("//m:task", base, lowering, {**RUN, "accuracy": accuracy}, linked)
    texts = [f["text"] for f in findings(described)]
    assert texts == [
        "Quantization leaves 12.3 dB in output 0 of forward; 20 dB are a tenth of noise.",
        "Output 0 of forward, dim 1, rows 4 to 8: constant 0.",
        "20.0% of 2.0 MFLOP in forward are delegated; most of the rest is aten.sin.default.",
        "A layer was left unquantized: head.",
    ]
    page = pages.of_program(described)
    assert page.index("4 to look at") < page.index('id="bytes"')
    assert "too &lt;small&gt;" in page
    for finding in findings(described):
        assert f'id="{finding["section"]}"' in page


def test_a_page_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {"<b>": b"e" * 64}, {"wq": b"q" * 4096})
    linked = dataclasses.asdict(link_with(base, tmp_path / "out")[0])
    described = report.describe("//m:task", base, FACTS, RUN, linked)
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
