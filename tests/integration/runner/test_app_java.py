"""The classes for Java on a Java of this machine; see AppMain.java."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.runner.counting import Counting, Stateful, write, write_tokenizer

CLASSES = Path("tools/runner/java/executorch_app.jar").absolute()
LIBRARY = Path("tools/runner/java/libexecutorch_app.so").absolute()
JAVA = Path(os.environ["JAVA"]).absolute()
MAIN = Path("tests/integration/runner/app_main.jar").absolute()
TURNS = os.environ.get("TURNS", "100")  # In each of two threads.


def java(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a main class of these tests."""
    return subprocess.run(
        [
            *(JAVA, "-Xcheck:jni", "--enable-native-access=ALL-UNNAMED"),
            *(f"-Drulesexecutorch.library={LIBRARY}", "-cp", f"{CLASSES}:{MAIN}", name),
            *arguments,
        ],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={"LC_ALL": "C.UTF-8"},
    )


def test_a_java_program_takes_a_variant(tmp_path: Path) -> None:
    program = write(tmp_path / "small.pte", Counting(), {"forward": None})
    shutil.copyfile(program, tmp_path / "large.pte")
    names = ("large", "small")
    file = {"size": program.stat().st_size}
    manifest = {
        "format": 1,
        "label": "//:app",
        "files": {f"{name}.pte": file for name in names},
        "programs": {name: {"label": f"//:{name}", "file": f"{name}.pte"} for name in names},
        "variants": {
            "chat": [
                {"program": "large", "conditions": [{"fact": "ram_gb", "at_least": "4"}]},
                {"program": "small"},
            ]
        },
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    result = java("VariantsMain", tmp_path, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    large, small, forced, other, wrong = result.stdout.splitlines()
    assert large.startswith("[chat] ")
    assert json.loads(large.partition(" ")[2])["program"] == "large"
    assert json.loads(small.partition(" ")[2])["skipped"] == [
        {"program": "large", "reason": "it needs ram_gb >= 4, and the device has ram_gb 2"}
    ]
    assert json.loads(forced.partition(" ")[2]) == {
        "program": "large",
        "skipped": [],
        "device": {},
    }
    assert other == "null"
    assert wrong == 'variant: got "chat", expected one of: large, small.'


@pytest.mark.parametrize(
    ("net", "metadata"),
    [(Counting(), {}), (Stateful(), {"use_recurrent_state": True})],
    ids=["cache", "state"],
)
def test_a_java_program_runs_methods_and_chats(
    net: Counting, metadata: dict[str, object], tmp_path: Path
) -> None:
    program = write(tmp_path / "counting.pte", net, {"forward": None}, **metadata)
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    result = java("AppMain", program, tokenizer, tmp_path, TURNS)
    assert result.returncode == 0, result.stdout + result.stderr
    # What -Xcheck:jni finds.
    assert "WARNING in native method" not in result.stdout
    methods, *sentences = result.stdout.splitlines()
    metadata_methods = ["get_eos_ids", "get_max_context_len", "get_max_seq_len", *metadata]
    assert methods == f"[{', '.join(['forward', *metadata_methods])}]"
    closed = ["This chat is closed.", "This program is closed."]
    expected = [
        "input_0",
        "input_0: size: got 8 bytes, expected those of int64 (1, 2).",
        'has no method "wälk 🦊"; its methods are: forward',
        'dtype of a tensor: got "float32", expected "int64". Read it with data().',
        "the message does not fit into the context: got 3 tokens, expected at most 1.",
        "turns: got 3, expected at most 2, the turns of the chat.",
        "This program has an open chat. Close it, or load the program once more.",
        "message: got null, expected a value.",
        "message: got a text with the character U+0000, expected one without.",
        "none.chat",
        'executorch_app_switch_adapter: program: got "none", expected one of: ',
        *closed,
        *closed,
        "This app is closed. Open another one.",
        "missing 🦊.pte",
        "none.ptd",
        "seed or max_new_tokens: got 4294967295, expected at most 2147483647.",
    ]
    assert len(sentences) == len(expected), result.stdout
    for sentence, words in zip(sentences, expected, strict=True):
        assert words in sentence


def test_each_method_in_each_wrong_way(tmp_path: Path) -> None:
    program = write(tmp_path / "counting.pte", Counting(), {"forward": None})
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    result = subprocess.run(
        [
            *(JAVA, "-Xcheck:jni", "--enable-native-access=ALL-UNNAMED"),
            *(f"-Drulesexecutorch.library={LIBRARY}", "-cp", f"{CLASSES}:{MAIN}", "Misuse"),
            *(program, tokenizer, tmp_path),
        ],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={"LC_ALL": "C.UTF-8"},
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr
    assert "WARNING in native method" not in result.stdout
    calls = re.search(r"^(\d+) calls, 0 wrong$", result.stdout, re.MULTILINE)
    assert calls and int(calls[1]) >= 150, result.stdout
