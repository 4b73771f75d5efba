"""The demo apps compute what the eager models compute, on the four platforms that run here."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from etbuild import ModelContext, ModelSpec
from etcli import cli
from etllm.entry import build as build_llama

from models.silero_vad import build as build_silero
from tests.integration.noise import decibels
from tests.integration.program_starters import STARTERS

_APPS = Path("apps").absolute()
_PLATFORMS = os.environ["DEMO_PLATFORMS"].split()

# Least signal-to-noise ratio against the eager model, in dB: two layers in 4 bits, and float32.
_PROGRAMS = {"llama_tiny_xnnpack": 12, "silero_vad_xnnpack": 80}


def spec_of(program: str) -> ModelSpec:
    if program.startswith("silero"):
        (weights,) = Path("..").glob("*silero_vad/silero_vad.jit")
        return build_silero(ModelContext(files={"silero_vad.jit": weights}))
    (weights,) = Path("..").glob("*smollm2/model.gguf")
    files = {"model.gguf": weights, "llm.yaml": Path("models/smollm2_tiny.yaml")}
    return build_llama(ModelContext({"backends": "xnnpack", "layers": "2"}, files))


@pytest.fixture(scope="module", params=_PROGRAMS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[Path], list[np.ndarray]]:
    """A program, files of its inputs, and the eager model's outputs for them."""
    method = spec_of(request.param).methods["forward"]
    folder = tmp_path_factory.mktemp(request.param)
    files = []
    for number, tensor in enumerate(method.example_inputs):
        files.append(folder / f"{number}.npy")
        np.save(files[-1], tensor.numpy())
    with torch.no_grad():
        outputs = method.module(*method.example_inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return request.param, files, [o.numpy() for o in outputs]


def app_of(platform: str) -> tuple[Path, dict[str, Any]]:
    app = _APPS / f"demo_{platform}"
    return app, json.loads((app / "manifest.json").read_text())


def run(platform: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    app, _ = app_of(platform)
    command = [*STARTERS[platform], app / "runner", "--app", app, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("platform", STARTERS)
def test_outputs_agree_with_eager(
    case: tuple[str, list[Path], list[np.ndarray]], platform: str, tmp_path: Path
) -> None:
    program, inputs, expected = case
    given = [word for file in inputs for word in ("--input", file)]
    done = run(platform, "--program", program, *given, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    got = [np.load(tmp_path / f"output_{i}.npy") for i in range(len(expected))]
    for one, other in zip(expected, got, strict=True):
        assert decibels(one, other) >= _PROGRAMS[program]


def test_answers_are_the_same_on_all_platforms() -> None:
    """An answer of the language model, with the app's tokenizer and chat format."""
    answers = {}
    for platform in STARTERS:
        options = ["--prompt", "What is the capital of France?", "--max_new_tokens", "8", "--json"]
        done = run(platform, "--program", "llama_tiny_xnnpack", *options)
        # Neither the runtime nor its libraries for processors and threads print anything; Android's
        # tokenizers say one thing as they are loaded.
        said = [line for line in done.stderr.splitlines() if not line.startswith("I tokenizers:")]
        assert (done.returncode, said) == (0, []), platform
        assert platform.startswith("android") or not done.stderr, platform
        answers[platform] = json.loads(done.stdout)["programs"][0]["answer"]
    expected = answers["linux_x86_64"]
    assert len(expected["prompt_tokens"]) == 37 and len(expected["tokens"]) == 8
    for platform, answer in answers.items():
        for part in ("prompt_tokens", "tokens", "text", "reason"):
            assert answer[part] == expected[part], platform


@pytest.mark.parametrize("platform", _PLATFORMS)
def test_manifests_hold(platform: str) -> None:
    app, manifest = app_of(platform)
    assert manifest["platforms"] == [platform]
    assert set(manifest["programs"]) == set(_PROGRAMS)
    there = {p.relative_to(app).as_posix() for p in app.rglob("*") if p.is_file()}
    assert there == {*manifest["files"], "manifest.json"}
    for path, entry in manifest["files"].items():
        data = (app / path).read_bytes()
        assert entry["size"] == len(data), path
        assert entry["sha256"] == hashlib.sha256(data).hexdigest(), path


def test_launchers_for_another_processor() -> None:
    """`bazel run` says how to start them in qemu, and `--run_under` with qemu does."""
    launcher = _APPS / "demo_linux_arm64.run.sh"
    done = subprocess.run([launcher, "--list"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "--run_under=@executorch_qemu//:run_aarch64 //apps:demo" in done.stderr
    command = [*STARTERS["linux_arm64"], launcher, "--list"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(program in done.stdout for program in _PROGRAMS), done.stdout


# Stands for Android's adb, which is not here: a folder is the device, and the bench that replaces
# Android's C library starts the runner, which does not find its app there by itself.
_STAND_IN_ADB = """#!/bin/sh
echo "adb $*" >>"$DEVICE/log"
case "$1" in
get-state) test -e "$DEVICE/ready" ;;
push) mkdir -p "$DEVICE$4" && cp -rL "$3" "$DEVICE$4" ;;
shell)
  start="$STARTER ./runner --app ."
  sh -c "$(printf %s "$2" | sed "s#/data/local/tmp#$DEVICE&#; s#./runner#$start#")"
  ;;
esac
"""


def on_device(device: Path, *arguments: str, adb: str = "adb") -> subprocess.CompletedProcess[str]:
    """`bazel run` of the app for Android."""
    return subprocess.run(
        [_APPS / "demo_android_x86_64.run.sh", *arguments],
        capture_output=True,
        env={
            **os.environ,
            "ADB": str(device / adb),
            "DEVICE": str(device),
            "STARTER": " ".join(map(str, STARTERS["android_x86_64"])),
        },
        text=True,
    )


@pytest.fixture
def device(tmp_path: Path) -> Path:
    (tmp_path / "adb").write_text(_STAND_IN_ADB)
    (tmp_path / "adb").chmod(0o755)
    return tmp_path


def test_an_app_is_copied_to_a_device_and_started_there(device: Path) -> None:
    (device / "ready").touch()
    program = "llama_tiny_xnnpack"
    words = ["--program", program, "--prompt", "What's $HOME's `x`?", "--max_new_tokens", "2"]
    done = on_device(device, *words, "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["programs"]
    assert report["program"] == f"./programs/{program}.pte"
    assert (device / f"data/local/tmp/demo_android_x86_64/programs/{program}.pte").is_file()
    here = run("linux_x86_64", *words, "--json")
    expected = json.loads(here.stdout)["programs"][0]["answer"]
    assert report["answer"]["prompt_tokens"] == expected["prompt_tokens"]
    failed = on_device(device, "--program", "none")
    assert failed.returncode == 1
    assert 'has no program "none"' in failed.stderr


def test_what_would_be_done_on_a_device(device: Path) -> None:
    done = on_device(device, "--dry_run", "--prompt", "it's", adb="missing")
    assert done.returncode == 0, done.stderr
    push, shell = done.stdout.splitlines()
    target = "/data/local/tmp/demo_android_x86_64"
    assert push.startswith(f"{device}/missing push --sync '")
    assert push.endswith(f"/apps/demo_android_x86_64/.' '{target}/'")
    (word,) = shlex.split(shell.removeprefix(f"{device}/missing shell "))
    assert shlex.split(word) == [
        *["cd", target, "&&", "chmod", "+x", "runner", "&&"],
        *["./runner", "--prompt", "it's"],
    ]


def test_without_a_device(device: Path) -> None:
    done = on_device(device)
    assert done.returncode == 1
    assert 'adb get-state" finds no single device that is ready. Connect one' in done.stderr
    done = on_device(device, adb="missing")
    assert done.returncode == 1
    assert "missing, which starts it on a device, is not installed" in done.stderr


@pytest.mark.parametrize("platform", ["android_x86_64", "linux_x86_64"])
def test_a_benchmark_of_an_app(
    platform: str, device: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures of a real runner; adb and the device are the replacements above."""
    (device / "ready").touch()
    monkeypatch.setenv("ADB", str(device / "adb"))
    monkeypatch.setenv("DEVICE", str(device))
    monkeypatch.setenv("STARTER", " ".join(map(str, STARTERS["android_x86_64"])))
    app = f"apps/demo_{platform}"
    words = ["--target_app", f"{app}.run.sh", "--target_app_folder", app, "--json"]
    words += ["--repeat", "2", "--prompt_tokens", "4", "--tokens", "2"]
    names = {}
    for program in _PROGRAMS:
        assert cli.main(["benchmark", *words, "--program", program]) == 0, capsys.readouterr().err
        result = json.loads(capsys.readouterr().out)
        assert result["device"] == platform
        assert all(value > 0 for value in result["figures"].values()), result["figures"]
        names[program] = set(result["figures"])
    assert {"first token", "reading", "writing"} <= names["llama_tiny_xnnpack"]
    assert "forward" in names["silero_vad_xnnpack"]


def test_all_platforms_have_the_same_programs() -> None:
    """Programs are lowered once for all platforms."""
    hashes = {
        tuple(app_of(platform)[1]["files"][f"programs/{name}.pte"]["sha256"] for name in _PROGRAMS)
        for platform in _PLATFORMS
    }
    assert len(hashes) == 1


def test_sizes_without_models() -> None:
    for platform in ("linux_arm64", "linux_x86_64"):
        _, manifest = app_of(platform)
        models = ("programs/", "data/", "assets/")
        size = sum(
            entry["size"]
            for path, entry in manifest["files"].items()
            if not path.startswith(models)
        )
        assert size <= 20e6, platform
