"""Evaluating and measuring a small program, from the flags that the rule writes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from etcli import cli
from etcli.measure import measuring, recorded
from etfast import path as fast_path
from etlink import process
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)).cumsum(-1)), x.argmax(-1)


def build(ctx):
    torch.manual_seed(1)
    return Net().eval(), (torch.randn(3, 16),)
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that the rule writes into the script."""
    folder = tmp_path_factory.mktemp("programs")
    source = folder / "net.py"
    source.write_text(SOURCE)
    scope: dict = {}
    exec(SOURCE, scope)
    net, inputs = scope["build"](None)
    exported = torch.export.export(net, inputs)
    with fast_path.chosen("fast"):
        lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        manager = lowered.to_executorch()
    program = folder / "net.pte"
    program.write_bytes(manager.buffer)
    manifest = folder / "net.manifest.json"
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    files = {"net.pte": {"size": program.stat().st_size, "sha256": digest}}
    programs = {"net": {"label": "//:net", "file": "net.pte"}}
    described = {"format": 1, "label": "//:net", "files": files, "programs": programs}
    manifest.write_text(json.dumps(described))
    flags = folder / "net.flags"
    flags.write_text(
        "\n".join(
            [
                "--label=//:net",
                "--model_label=//:model",
                "--entry_point=net:build",
                "--args={}",
                f"--source=_main/net.py={source}",
                "--root=_main",
                f"--program={program}",
            ]
        )
        + "\n"
    )
    return [
        *("--target_flags", str(flags)),
        *("--target_manifest", str(manifest)),
        *("--target_recipe", "//xnnpack:fp32"),
    ]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures in this process, which has torch: another one takes seconds to import it."""
    modules = {
        "etcli.measure.measuring": measuring.measure,
        "etcli.measure.recorded": recorded.summaries,
    }

    def answer(module: str, request: dict, *_: object, **__: object) -> dict:
        request = json.loads(json.dumps(request, default=str))
        return json.loads(json.dumps(modules[module](request)))

    monkeypatch.setattr(process, "ask", answer)


def test_outputs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", *words, "--precision", "bfloat16", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    rows = {(row["model"], row["output"]): row for row in result["outputs"]}
    assert rows["program", 0]["sqnr_db"] > 100
    assert rows["program", 1]["note"] == "the same"
    # Eight bits of mantissa: some 45 dB.
    assert 25 < rows["eager bfloat16", 0]["sqnr_db"] < 70
    assert rows["program", 0]["same_class_percent"] == 100.0
    assert rows["program", 0]["largest_difference"] < 1e-4


def test_own_inputs(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a file instead of the model's, each sample a row of the worst."""
    from safetensors.torch import save_file

    file = tmp_path / "inputs.safetensors"
    save_file({"0": torch.cat([torch.zeros(1, 3, 16), 1e6 * torch.ones(1, 3, 16)])}, file)
    assert cli.main(["evaluate", *words, "--inputs", str(file), "--json"]) == 0
    own = json.loads(capsys.readouterr().out)["outputs"]
    assert cli.main(["evaluate", *words, "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["outputs"]
    assert own[0]["largest_difference"] > 100 * models[0]["largest_difference"]
    array = tmp_path / "inputs.npy"
    array.write_bytes(b"")
    text = tmp_path / "text.txt"
    text.write_text("words")
    for arguments, message in [
        (["--inputs", array], "inputs: inputs.npy: got a .npy file, expected .safetensors."),
        (["--inputs", file, "--text", text], "Got --text and --inputs, expected one of them."),
        (["--inputs", tmp_path / "none"], "none"),
    ]:
        assert cli.main(["evaluate", *words, *map(str, arguments)]) == 2
        assert message in capsys.readouterr().err


def test_a_program_of_other_weights_is_noticed(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = Path(words[1]).read_text()
    other = tmp_path / "net.py"
    other.write_text(SOURCE.replace("torch.manual_seed(0)", "torch.manual_seed(7)"))
    changed = tmp_path / "other.flags"
    lines = [
        f"--source=_main/net.py={other}" if line.startswith("--source=") else line
        for line in flags.splitlines()
    ]
    changed.write_text("\n".join(lines) + "\n")
    import sys

    sys.modules.pop("net", None)
    assert cli.main(["evaluate", "--target_flags", str(changed), *words[2:], "--json"]) == 0
    sys.modules.pop("net", None)
    rows = json.loads(capsys.readouterr().out)["outputs"]
    assert rows[0]["sqnr_db"] < 10


def test_a_benchmark(
    here: None, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, page = tmp_path / "b.json", tmp_path / "b.html"
    run = [*words, "--repeat", "4", "--warm_up", "1"]
    assert cli.main(["benchmark", *run, "--save", str(saved), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "XnnpackBackend" in out and "cumsum.out" in out
    result = json.loads(saved.read_text())
    assert len(result["cases"]["forward"]["seconds"]) == 4
    events = result["events"]["forward"]
    # The cumulative sum parts the layers: two delegates.
    assert [d["backend"] for d in events["delegates"]] == ["XnnpackBackend"] * 2
    assert {o["name"] for o in events["operators"]} == {"cumsum.out", "argmax.out"}
    inside = [o["name"] for d in events["delegates"] for o in d["operators"]]
    assert any(name.startswith("Fully Connected") for name in inside)
    taken = sum(d["ms"] for d in events["delegates"]) + sum(o["ms"] for o in events["operators"])
    assert 0 < taken <= events["total_ms"] * 1.5
    assert "Fully Connected" in page.read_text()
    # As a baseline: nothing is a million times slower, and something is more than a millionth.
    compared = [*run, "--no_events", "--baseline", str(saved), "--max_slowdown"]
    assert cli.main(["benchmark", *compared, "1000000"]) == 0
    assert "baseline" in capsys.readouterr().out
    assert cli.main(["benchmark", *compared, "0.000001"]) == 1
    assert "slower: forward: " in capsys.readouterr().err


def test_a_bare_file(
    here: None, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On random inputs, without the model."""
    program = Path(words[1]).with_suffix(".pte")
    page = tmp_path / "b.html"
    run = ["benchmark", str(program), "--repeat", "2", "--html", str(page)]
    assert cli.main(run) == 0
    out = capsys.readouterr().out
    assert out.startswith("net.pte\n")
    assert "Fully Connected" in out and "Fully Connected" in page.read_text()


def test_in_a_process_of_its_own(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["benchmark", *words, "--repeat", "2", "--no_events", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["peak_memory_bytes"] > result["memory_bytes"]["run"]
    assert len(result["load_seconds"]) == 6


@pytest.mark.parametrize(
    ("command", "more", "message"),
    [
        ("evaluate", ["--text", "no.txt"], "no.txt: file not found."),
        ("evaluate", ["--text", "latin.txt"], "latin.txt is not UTF-8: "),
        (
            "evaluate",
            ["--text", "text.txt"],
            "//:net is not a language model: it has the methods forward.",
        ),
        ("benchmark", ["--max_slowdown", "1.1"], "--max_slowdown compares with a --baseline"),
        ("benchmark", ["--baseline", "text.txt"], "text.txt is not a saved benchmark: "),
    ],
)
def test_messages(
    words: list[str],
    tmp_path: Path,
    command: str,
    more: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "text.txt").write_text("some text")
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert cli.main([command, *words, *more]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.strip().splitlines()[-1].startswith("error: ")


def test_another_program_than_the_manifests(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads(Path(words[3]).read_text())
    manifest["files"]["net.pte"]["sha256"] = "0" * 64
    other = tmp_path / "m.json"
    other.write_text(json.dumps(manifest))
    for command in ("evaluate", "benchmark"):
        assert cli.main([command, *words[:3], str(other), *words[4:]]) == 2
        assert "of another build than its manifest" in capsys.readouterr().err
