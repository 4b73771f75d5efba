"""Report of an app, and its page. Needs no torch."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from etcli.report import app, modules
from etcli.report import program as program_report
from etcli.report.treemap import Node
from etlink import manifest as manifests
from etlink.manifest import File, Manifest, Method, Program
from synthetic import link_with, program, shared_file
from test_page import ACCURACY, DELEGATION, FACTS, RUN


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Any]:
    """An app of two programs that load one file: its manifest and their reports."""
    wide = {"body": b"b" * 8000}
    base = program(tmp_path / "base", "//m:base", {}, wide)
    shared = shared_file(tmp_path / "f.ptd", "//m:f", base)
    reports, programs, files = {}, {}, {"runner": 5000, "lib/libx.so": 9000, "manifest": 10}
    for name in ("one", "two"):
        label = f"//m:{name}"
        lowered = program(tmp_path / name, label, {"head": name.encode() * 400}, wide)
        linked, path, _ = link_with(lowered, tmp_path / f"{name}.out", shared)
        lowering = {**FACTS, "delegation": DELEGATION, "not_quantized": {name: "why"}}
        run = {**RUN, "accuracy": ACCURACY}
        reports[label] = program_report.describe(
            label, lowered, lowering, run, dataclasses.asdict(linked)
        )
        file = f"programs/{name}.pte"
        files[file] = path.stat().st_size
        programs[name] = Program(
            label=label,
            file=file,
            data=("data/f.ptd",),
            methods={"forward": Method(backends=("XnnpackBackend",), operators=("aten::sin.out",))},
        )
    files["data/f.ptd"] = (tmp_path / "f.ptd").stat().st_size
    labels = {"data/f.ptd": "//m:f"}
    manifest = Manifest(
        label="//a:app",
        platforms=("linux_x86_64",),
        executorch={"exporter": "1.5.1", "runtime": "1.5.1"},
        binary="runner",
        libraries=("lib/libx.so",),
        programs=programs,
        files={p: File(size=size, label=labels.get(p, "")) for p, size in files.items()},
    )
    return {"manifest": manifest, "reports": reports}


def test_bytes_by_kind(parts: dict[str, Any]) -> None:
    report = app.describe(**parts)
    sizes = {path: file.size for path, file in parts["manifest"].files.items()}
    assert report["bytes"] == {
        "binary": 5000,
        "data": sizes["data/f.ptd"],
        "library": 9000,
        "other": 10,
        "program": sizes["programs/one.pte"] + sizes["programs/two.pte"],
    }
    assert report["files"][0]["path"] == "lib/libx.so"


def test_the_page(parts: dict[str, Any]) -> None:
    page = app.of_app(app.describe(**parts))
    assert page == app.of_app(json.loads(json.dumps(app.describe(**parts))))
    assert page.index("one: A layer was left unquantized: one.") < page.index('id="bytes"')
    # What two programs share lies in one file, once.
    assert page.count("data/f.ptd › delegates weights › body") == 1
    assert "programs/two.pte › portable constants › head, float32 [300]: 1.2 kB" in page
    assert '<td class="n">95.0%</td>' in page
    assert "41.3 dB" in page


def test_the_command_line(parts: dict[str, Any], tmp_path: Path) -> None:
    manifest = tmp_path / "app.json"
    manifests.write(manifest, parts["manifest"])
    arguments = ["--manifest", str(manifest)]
    for label, report in parts["reports"].items():
        file = tmp_path / f"{report['label'][4:]}.json"
        file.write_text(json.dumps(report))
        arguments += ["--report", label, str(file)]
    out = {"json": tmp_path / "r.json", "html": tmp_path / "r.html"}
    arguments += [word for name, p in out.items() for word in (f"--{name}", str(p))]
    assert app.main(arguments) == 0
    assert json.loads(out["json"].read_text())["platform"] == "linux_x86_64"
    for path in out.values():
        path.unlink()
    manifest.write_text("{}")
    assert app.main(arguments) == 1
    assert not out["html"].exists()


def test_modules() -> None:
    names = [f"net.layers.{n}.{w}" for n in range(11) for w in ("wq", "wk")] + ["net.head.weight"]
    nodes = modules.by_module([Node(name, 10) for name in names])
    assert [n.name for n in nodes] == [*(f"layers.{n}" for n in range(11)), "net.head.weight"]
    assert [n.size for n in nodes] == [20] * 11 + [10]
    few = [Node(name, 10) for name in names[:4]]
    assert modules.by_module(few) == tuple(few)
    assert modules.common_prefix(["a.b.c", "a.b.d", "a.bx.c"]) == "a."
    assert modules.common_prefix(["weight", "bias"]) == ""


def test_files_of_a_device(parts: dict[str, Any]) -> None:
    """Files that the app has itself are left out."""
    files = [("QnnBackend", "libQnnHtp.so"), ("QnnBackend", "libx.so")]
    report = app.describe(**parts, device_files=files)
    assert report["device_files"] == [{"backend": "QnnBackend", "file": "libQnnHtp.so"}]
    page = app.of_app(report)
    assert "Files that the device must have" in page and "libQnnHtp.so" in page
    assert "Files that the device must have" not in app.of_app(app.describe(**parts))
