"""The benchmark of an app through its launcher.

A shell script stands for adb, which is not here, and another for the runner, which
tests/integration/platforms has. No phone was tried.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from etcli import cli
from executorch.exir import to_edge

# A folder is the device; what was asked for is kept in a file.
REPLACED_ADB = """#!/bin/sh
echo "$*" >>"$DEVICE/log"
case "$1" in
get-state) ;;
push) mkdir -p "$DEVICE$4" && cp -rL "$3" "$DEVICE$4" ;;
pull) cp "$DEVICE$2" "$3" ;;
shell)
  case "$2" in getprop*) printf 'a replacement\\n8\\n'; exit ;; esac
  sh -c "$(printf %s "$2" | sed "s#/data/local/tmp#$DEVICE&#")"
  ;;
esac
"""
REPLACED_RUNNER = """#!/bin/sh
case "$*" in *broken*) echo "error: no such method" >&2; exit 1 ;; esac
case "$*" in *--prompt*) cat answer.json; exit ;; esac
cat report.json
"""


def memory(resident: int) -> dict[str, int]:
    return {"resident_bytes": resident, "anonymous_bytes": 0, "file_bytes": 0, "peak_bytes": 0}


def report(**more: Any) -> str:
    """Returns the runner's output, as far as it is read."""
    program = {
        "load_ms": 4.0,
        "run_ms": [9.0, 3.0, 1.0, 2.0],
        "memory_after_load": memory(1500),
        "memory_after_run": memory(3000),
    }
    whole = {"memory_at_start": memory(1000), "peak_bytes": 5000, "programs": [program | more]}
    return "a line of the device's shell\n" + json.dumps(whole)


class Net(torch.nn.Module):
    """One operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of (2)"""
        return x.sin()


def app(folder: Path, platform: str, constants: dict[str, int], monkeypatch: Any) -> list[str]:
    """An app with its launcher in runfiles, and a device; the words that the rule writes."""
    runfiles = folder / "runfiles"
    app = runfiles / "_main" / "chat"
    (app / "programs").mkdir(parents=True)
    exported = torch.export.export(Net(), (torch.zeros(2),))
    edge = to_edge({"forward": exported}, constant_methods=constants)
    (app / "programs/p.pte").write_bytes(edge.to_executorch().buffer)
    (app / "runner").write_text(REPLACED_RUNNER)
    (app / "report.json").write_text(report())
    answer = {
        "prompt_tokens": [1] * 10,
        "prefill_ms": 500.0,
        "decode_tokens_per_second": 40.0,
    }
    (app / "answer.json").write_text(report(answer=answer, run_ms=[]))
    files = {"programs/p.pte": {"size": 70}, "data/d.ptd": {"size": 7}, "runner": {"size": 9}}
    program = {"label": "//:p", "file": "programs/p.pte", "data": ["data/d.ptd"]}
    manifest = {"format": 1, "label": "//:chat", "platforms": [platform], "files": files}
    manifest["programs"] = {"p": program}
    (app / "manifest.json").write_text(json.dumps(manifest))
    two = manifest | {"programs": {"p": program, "q": program}}
    (runfiles / "_main" / "two").mkdir()
    (runfiles / "_main" / "two" / "manifest.json").write_text(json.dumps(two))
    text = Path("rules/private/app_launcher.sh").absolute().read_text()
    values = {"app": "_main/chat", "label": "//:chat", "library_path": "", "platform": platform}
    for name, value in values.items():
        text = text.replace(f"%{{{name}}}", value)
    launcher = runfiles / "_main" / "chat.run.sh"
    launcher.write_text(text)
    adb = folder / "adb"
    adb.write_text(REPLACED_ADB)
    for file in (launcher, adb, app / "runner"):
        file.chmod(0o755)
    monkeypatch.setenv("ADB", str(adb))
    monkeypatch.setenv("DEVICE", str(folder / "device"))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(folder))
    (folder / "device").mkdir()
    monkeypatch.chdir(runfiles / "_main")
    return ["benchmark", "--target_app", "chat.run.sh", "--target_app_folder", "chat"]


LANGUAGE_MODEL = {"get_max_context_len": 9, "get_max_seq_len": 4, "get_eos_ids": 2}


@pytest.mark.parametrize("platform", ["android_arm64", "linux_x86_64"])
def test_an_app(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = app(tmp_path, platform, {}, monkeypatch)
    more = ["--warm_up", "1", "--repeat", "3", "--save", "saved.json", "--html", "page.html"]
    # On this machine the runner starts in the command's own folder.
    Path("report.json").write_text(report())
    assert cli.main([*words, *more]) == 0
    result = json.loads((tmp_path / "saved.json").read_text())
    figures = {name: round(value, 3) for name, value in result["figures"].items()}
    assert figures == {
        "load": 4.0,
        "load, the first time": 4.0,
        # Without the warm-up run.
        "forward": 2.0,
        "memory, loaded": 500,
        "memory, after running": 2000,
        "files": 77,
    }
    assert "1 cores" not in (tmp_path / "page.html").read_text()
    log = tmp_path / "device" / "log"
    if platform == "linux_x86_64":
        assert not log.exists()
        return
    assert result["machine"] == {"processor": "a replacement", "cores": 8, "system": "Android"}
    asked = [line for line in log.read_text().splitlines() if "./runner" in line]
    assert len(asked) == 3
    assert asked[-1].endswith(
        "./runner '--program' 'p' '--method' 'forward' '--repeat' '4' '--json'"
    )


def test_a_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    words = app(tmp_path, "android_arm64", LANGUAGE_MODEL, monkeypatch)
    assert cli.main(words) == 2
    assert (
        "//:chat: p is a language model, and the app has no tokenizer." in capsys.readouterr().err
    )
    tokenizer = Path("chat/assets/tokenizer/tokenizer.json")
    tokenizer.parent.mkdir(parents=True)
    tokenizer.write_text("{}")
    page = ["--html", "page.html"]
    assert cli.main([*words, *page, "--prompt_tokens", "2", "--tokens", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["cases"] == {}
    assert result["figures"]["reading"] == pytest.approx(20.0)
    assert result["figures"]["writing"] == pytest.approx(40.0)
    assert result["figures"]["first token"] == pytest.approx(500.0)
    asked = (tmp_path / "device/log").read_text()
    assert "'--prompt' 'one one' '--raw_prompt' '--max_new_tokens' '5' '--json'" in asked


def test_all_commands_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And none is run; events are copied from the device."""
    words = app(tmp_path, "android_arm64", {}, monkeypatch)
    assert cli.main([*words, "--target_app_events", "--repeat", "5", "--dry_run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not (tmp_path / "device/log").exists()
    adb, *_ = shlex.split(lines[0])
    assert lines[0] == f"{adb} shell 'getprop ro.product.model; nproc'"
    kinds = [shlex.split(line)[1] for line in lines[1:]]
    assert kinds == ["push", "shell"] * 4 + ["pull"]
    assert "--repeat'\\'' '\\''8'" in lines[6]
    assert "--etdump" in lines[8]
    assert shlex.split(lines[9])[1:] == ["pull", "/data/local/tmp/chat/events.etdp", "events.etdp"]


def test_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = app(tmp_path, "android_arm64", {}, monkeypatch)

    def error(*more: str) -> str:
        assert cli.main([*words, *more]) == 2
        return capsys.readouterr().err

    assert '//:chat: --program: got "r", expected one of p.' in error("--program", "r")
    several = error("--target_app_folder", "two")
    assert "//:chat: --program: got none, expected one of p, q." in several
    Path("chat/report.json").write_text("nothing")
    assert "//:chat: the runner printed no report: got 'nothing', expected JSON." in error()
    Path("chat/runner").write_text("#!/bin/sh\necho 'error: it broke' >&2\nexit 1\n")
    assert "//:chat: it broke" in error()
    monkeypatch.setenv("ADB", "no-adb")
    assert "no-adb, which starts it on a device, is not installed." in error()
    assert cli.main(["benchmark", "--dry_run"]) == 2
    assert "--dry_run and --program are for the benchmark of an app" in capsys.readouterr().err
