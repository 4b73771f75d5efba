"""Time and bytes of a program by module: from a lowering to what the command shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etcli import cli
from etcli.measure import measuring, modules, recorded
from etcli.measure.events import Delegate, Timeline
from etcli.report import modules as reported
from etlink import process
from etlink.lowered import Lowered
from etlower import flags, lower
from etlower.progress import Progress

# XNNPACK takes all of "whole", and of "mixed" what is around the cumulative sum.
SOURCE = """
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.export import ExportRecipe, LoweringRecipe


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)

    def forward(self, x):
        return self.last(self.first(x).cumsum(-1))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.whole, self.mixed = Whole(), Mixed()

    def forward(self, x):
        return self.mixed(self.whole(x))


def build(ctx):
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(16, 64),)


def recipe(ctx):
    return ExportRecipe(lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner()]))
"""
LINEAR = {
    "whole.up": 64 * 256,
    "whole.down": 256 * 64,
    "mixed.first": 64 * 64,
    "mixed.last": 64 * 8,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The net, lowered as the action does it: net.pte and net.report.json."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "two_parts.py").write_text(SOURCE)
    recipe = {"label": "//:recipe", "builder": "two_parts:recipe", "options": {}}
    words = [
        *("lower", "--label=//:net", "--model_label=//:model", "--entry_point=two_parts:build"),
        *("--args={}", f"--source=_main/two_parts.py={folder / 'two_parts.py'}", "--root=_main"),
        *(f"--recipe={json.dumps(recipe)}", f"--output={folder / 'lowered'}"),
    ]
    lower.run(flags.parse(words), Progress(), folder / "work" / "sources")
    lowered = Lowered(folder / "lowered")
    calls = json.loads((folder / "lowered" / lower.LOWERING).read_text())["calls"]
    report = {"modules": reported.of_program(lowered.index, calls)}
    (folder / "net.report.json").write_text(json.dumps(report))
    from etlink.link import link

    link(lowered, folder / "net.pte")
    return folder


def measured(folder: Path, *more: str) -> dict[str, Any]:
    """Runs the command on the net and returns what it saves."""
    saved = folder / "saved.json"
    words = [str(folder / "net.pte"), "--repeat", "2", "--save", str(saved), *more]
    assert cli.main(["benchmark", *words]) == 0
    return json.loads(saved.read_text())


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures in this process, which has torch: another one takes seconds to import it."""

    answers = {
        "etcli.measure.measuring": measuring.measure,
        "etcli.measure.recorded": recorded.summaries,
    }

    def answer(module: str, request: dict, *_: object, **__: object) -> dict:
        request = json.loads(json.dumps(request, default=str))
        return json.loads(json.dumps(answers[module](request)))

    monkeypatch.setattr(process, "ask", answer)


def test_what_lowering_records(folder: Path) -> None:
    report = json.loads((folder / "net.report.json").read_text())["modules"]
    calls = report["calls"]["forward"]
    assert list(calls["kernels"].values()) == ["mixed"]
    linear = {
        module: flops
        for nodes in calls["delegates"].values()
        for module, operator, flops in nodes
        if operator == "aten.linear.default"
    }
    assert linear == {module: 2 * 16 * size for module, size in LINEAR.items()}
    biases = {"whole.up": 256, "whole.down": 64, "mixed.first": 64, "mixed.last": 8}
    assert report["bytes"] == {m: 4 * (size + biases[m]) for m, size in LINEAR.items()}
    assert report["unnamed_bytes"] == 0 < report["payload_bytes"]


def test_the_tree_of_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = ["--report", str(folder / "net.report.json")]
    first = measured(folder, *report, "--html", str(folder / "b.html"))
    whole = first["events"]["forward"]
    found = whole["modules"]
    tree = {node["name"]: node for node in found["tree"]}
    assert list(tree) == [
        *("", "whole", "whole.up", "whole.down"),
        *("mixed", "mixed.first", "mixed.last"),
    ]
    # Nothing is lost or counted twice, neither of the time nor of the bytes.
    own = sum(node["own_ms"] for node in tree.values())
    assert own + found["unknown_ms"] + found["outside_ms"] == pytest.approx(whole["total_ms"])
    assert tree[""]["ms"] == pytest.approx(own)
    parts = ("mixed.first", "mixed.last")
    inner = tree["mixed"]["own_ms"] + sum(tree[name]["ms"] for name in parts)
    assert tree["mixed"]["ms"] == pytest.approx(inner)
    assert tree[""]["bytes"] == sum(node["own_bytes"] for node in tree.values()) > 0
    # The cumulative sum is the one kernel; its module has it alone.
    [kernel] = whole["operators"]
    assert kernel["ms"] <= tree["mixed"]["own_ms"]
    # XNNPACK's own events tell the larger layers from the smaller ones.
    [delegate] = found["delegates"]
    assert delegate["backend"] == "XnnpackBackend"
    assert 0 < delegate["measured_ms"] <= delegate["ms"]
    out = capsys.readouterr().out
    assert " of it measured by its own events of operators, the rest split by FLOPs." in out
    assert "  whole.down" in out
    html = (folder / "b.html").read_text()
    assert 'title="mixed.last">last</span>' in html
    assert " ms: outside of operators." in html and "Slower than" not in html


def test_a_baseline_compares_modules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = ["--report", str(folder / "net.report.json")]
    before = measured(folder, *report)
    for node in before["events"]["forward"]["modules"]["tree"]:
        # One module was much faster before, and one had another name.
        scale = 1e-6 if node["name"] == "whole.up" else 1e6
        node["ms"], node["own_ms"] = scale * node["ms"], scale * node["own_ms"]
        node["name"] = node["name"].replace("mixed.last", "mixed.end")
    (folder / "before.json").write_text(json.dumps(before))
    capsys.readouterr()
    html = folder / "c.html"
    compared = ["--compare", str(folder / "before.json"), "--html", str(html)]
    found = measured(folder, *report, *compared)["events"]["forward"]["modules"]
    out = capsys.readouterr().out
    _, _, slower = out.partition("forward: slower, by module")
    names = [line.split()[0] for line in slower.splitlines()[2:] if line.strip()]
    assert [name for name in names if name in LINEAR] == ["whole.up"]
    tree = {node["name"]: node for node in found["tree"]}
    assert "before_ms" in tree["whole.up"] and "before_ms" not in tree["mixed.last"]
    assert "Slower than the baseline" in html.read_text()


def test_without_a_report(folder: Path) -> None:
    assert "modules" not in measured(folder)["events"]["forward"]


def split(backend: str, *own: tuple[str, float]) -> dict[str, float]:
    """Milliseconds by module of a delegate that took 10 ms."""
    nodes = [["a", "aten.linear.default", 300], ["b", "aten.linear.default", 100]]
    nodes += [["b", "aten._softmax.default", 100], ["c", "aten.view_copy.default", 0]]
    calls = {"forward": {"kernels": {"0": "a"}, "delegates": {"1": nodes}}}
    program = {"calls": calls, "bytes": {}, "unnamed_bytes": 0, "payload_bytes": 0}
    kernels = [(0, "sin.out", 2.0), (7, "cos.out", 0.5)]
    delegates = {1: Delegate(backend, 10.0, list(own)), 9: Delegate(backend, 1.0)}
    result = modules.of_method(Timeline(15.0, kernels, delegates), "forward", program)
    # Instructions 7 and 9 are in a branch.
    assert (result["unknown_ms"], result["outside_ms"]) == (1.5, 1.5)
    [delegate] = result["delegates"]
    times = {node["name"]: round(node["own_ms"], 3) for node in result["tree"]}
    assert sum(times.values()) == pytest.approx(12.0)
    return {**times, "measured": round(delegate["measured_ms"], 3), "": modules.notes(result)[0]}


def test_a_delegate_that_tells_nothing_is_split_by_flops() -> None:
    assert split("B") == {
        **{"a": 2 + 6.0, "b": 4.0, "c": 0.0, "measured": 0.0},
        "": "B: 10.000 ms, split by FLOPs.",
    }


def test_events_of_xnnpack_are_those_of_its_operators() -> None:
    own = [("Fully Connected (NC, F32) GEMM #1", 1.0), ("Fully Connected (NC, F32) GEMM #2", 5.0)]
    note = "XnnpackBackend: 10.000 ms, {} of it measured by its own events of operators, the rest "
    # 4 ms without an event are split in the ratio of the FLOPs 300, 200, 0.
    assert split("XnnpackBackend", *own) == {
        **{"a": 2 + 1 + 2.4, "b": 5 + 1.6, "c": 0.0, "measured": 6.0},
        "": note.format("6.000") + "split by FLOPs.",
    }
    # One of two layers has become part of another operator: 6 ms of both by their FLOPs.
    assert split("XnnpackBackend", ("Fully Connected (NC, F32) GEMM #1", 6.0)) == {
        **{"a": 2 + 4.5 + 2.4, "b": 1.5 + 1.6, "c": 0.0, "measured": 0.0},
        "": "XnnpackBackend: 10.000 ms, split by FLOPs.",
    }
    # Rounded up, they add up to more than the call took.
    times = split("XnnpackBackend", *own[:1], (own[1][0], 19.0))
    assert times == {
        **{"a": 2.5, "b": 9.5, "c": 0.0, "measured": 10.0},
        "": note.format("10.000") + "split by FLOPs.",
    }


def test_a_file_that_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "x.report.json"
    path.write_text('{"modules": {"calls": {}}}')
    with pytest.raises(BuildError) as caught:
        modules.read(path)
    assert 'x.report.json is not the report of a program: it.modules has no "bytes".' in str(
        caught.value
    )
