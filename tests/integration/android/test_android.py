"""APK and AAR: contents, paths, signatures, and running their native code."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from packed import (
    HERE,
    TOOLS,
    java,
    manifest_of,
    offsets,
    ones,
    page_sizes,
    program_arguments,
    run_in_java,
    run_library,
    say,
)

APK = HERE / "runner.apk"
AAR = HERE / "library.aar"
APP = HERE / "host_app"
ABIS = ("arm64-v8a", "x86_64")


def test_signature() -> None:
    """Schemes 2 and 3, with the repository's debug key."""
    said = say(TOOLS / "apksigner", "verify", "--verbose", "--print-certs", APK)
    assert "Verified using v1 scheme (JAR signing): false" in said
    assert "Verified using v2 scheme (APK Signature Scheme v2): true" in said
    assert "Verified using v3 scheme (APK Signature Scheme v3): true" in said
    assert "CN=rules_executorch debug key - anyone has it" in said


def test_own_key() -> None:
    """Uses the named key of a keystore with two keys."""
    said = say(TOOLS / "apksigner", "verify", "--print-certs", HERE / "own_key.apk")
    assert "CN=second test key of rules_executorch" in said
    assert "CN=first" not in said


def test_badging() -> None:
    """The manifest that a device reads."""
    said = say(TOOLS / "aapt2", "dump", "badging", APK)
    assert "package: name='org.example.nets' versionCode='7' versionName='1.2'" in said
    assert "application: label='Nets & \\\"tests\\\"'" in said
    assert "launchable-activity: name='rulesexecutorch.runner.RunActivity'" in said
    assert "sdkVersion:'26'" in said
    assert "targetSdkVersion:'35'" in said
    assert "native-code: 'arm64-v8a' 'x86_64'" in said
    tree = say(TOOLS / "aapt2", "dump", "xmltree", "--file", "AndroidManifest.xml", APK)
    assert "extractNativeLibs(0x010104ea)=false" in tree
    assert "hasCode(0x0101000c)=true" in tree


def test_contents() -> None:
    """Code, libraries by ABI, programs and data once, and nothing else."""
    app = json.loads((APP / "manifest.json").read_text())
    kept = [n for n in app["files"] if n != "runner" and not n.startswith("lib/")]
    libraries = [n.removeprefix("lib/") for n in app["libraries"]] + ["librunner.so"]
    with zipfile.ZipFile(APK) as archive:
        names = archive.namelist()
        assert sorted(names) == sorted(
            ["AndroidManifest.xml", "resources.arsc", "classes.dex", "assets/manifest.json"]
            + [f"assets/{n}" for n in kept]
            + [f"lib/{abi}/{n}" for abi in ABIS for n in libraries]
        )
        assert [n for n in names if n.endswith(".ptd")] == ["assets/data/weights.ptd"]
        for name in kept:
            assert archive.read(f"assets/{name}") == (APP / name).read_bytes()
        dex = archive.read("classes.dex")
    assert dex.startswith(b"dex\n")
    for name in ("RunActivity", "RunService", "AppFiles", "NativeRunner"):
        assert f"Lrulesexecutorch/runner/{name};".encode() in dex
    manifest = manifest_of(APK)
    assert manifest["app"] == "runner"
    assert [p["name"] for p in manifest["programs"]] == ["one", "two"]
    assert manifest["programs"] == app["programs"]
    assert sorted(manifest["files"]) == sorted(kept)
    assert "binary" not in manifest


def test_alignment() -> None:
    """Mapped files are uncompressed at page boundaries, also after signing."""
    offset_by_name = offsets(APK)
    with zipfile.ZipFile(APK) as archive:
        stored = {i.filename for i in archive.infolist() if i.compress_type == 0}
    for name, offset in offset_by_name.items():
        if name.endswith(".so"):
            assert offset % 16384 == 0, name
        elif name.endswith((".pte", ".ptd")):
            assert offset % 4096 == 0, name
        elif name in ("resources.arsc", "assets/manifest.json"):
            assert offset % 4 == 0, name
        else:
            continue
        assert name in stored, name


@pytest.mark.parametrize("package", [APK, AAR])
def test_pages(package: Path) -> None:
    """Libraries that were linked for pages of 4 KiB, as this machine's are, load with 16 KiB."""
    with zipfile.ZipFile(package) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    assert len(libraries) >= 8
    assert page_sizes(package) == dict.fromkeys(libraries, 16384)


def test_aar() -> None:
    """The paths in an AAR, and the class that unpacks files."""
    with zipfile.ZipFile(AAR) as archive:
        names = archive.namelist()
        assert {
            "AndroidManifest.xml",
            "R.txt",
            "classes.jar",
            "assets/manifest.json",
            "assets/programs/one.pte",
            "assets/data/weights.ptd",
        } <= set(names)
        libraries = json.loads((APP / "manifest.json").read_text())["libraries"]
        for abi in ABIS:
            for library in [*libraries, "libexecutorch_app.so"]:
                assert f"jni/{abi}/{library.removeprefix('lib/')}" in names
        assert b'package="org.example.nets.programs"' in archive.read("AndroidManifest.xml")
        with archive.open("classes.jar") as jar, zipfile.ZipFile(jar) as classes:
            names = {name.partition("$")[0] for name in classes.namelist()}
            assert "rulesexecutorch/runner/AppFiles.class" in names
            for name in ("Answer", "Chat", "Program", "ProgramException", "Programs", "Tensor"):
                assert names & {f"rulesexecutorch/{name}{end}" for end in (".class", "")}, name
            assert not [name for name in names if "Activity" in name]
    assert manifest_of(AAR)["programs"] == manifest_of(APK)["programs"]


def test_classes_of_the_aar(tmp_path: Path) -> None:
    """Java runs a program with the AAR's classes and libraries, like the app's runner."""
    with zipfile.ZipFile(AAR) as archive:
        archive.extractall(tmp_path)
    done = run_library(tmp_path, ["one"])
    assert done.returncode == 0, done.stdout + done.stderr
    head, _, numbers = done.stdout.partition("\n")
    assert head == "[one, two] one float32 [2, 8]"
    say(
        *[APP / "runner", "--program", APP / "programs/one.pte"],
        *["--data", APP / "data/weights.ptd", "--output", tmp_path, "--output_format", "raw"],
        *["--input", ones(tmp_path / "ones.npy")],
    )
    expected = struct.unpack("<16f", (tmp_path / "output_0.bin").read_bytes())
    assert [float(number) for number in numbers.split()] == pytest.approx(expected)
    assert (
        run_library(tmp_path, ["none"]).stderr.count('program: got "none", expected one of: one')
        == 1
    )


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with zipfile.ZipFile(APK) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_native_code(unpacked: Path) -> None:
    """The APK's library and files give the same outputs as the app's runner."""
    done = run_in_java(unpacked, [*program_arguments(APK, unpacked), "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(done.stdout)["programs"]) == 2
    expected = unpacked / "expected"
    say(
        *[APP / "runner", "--program", APP / "programs/one.pte"],
        *["--data", APP / "data/weights.ptd", "--output", expected],
    )
    for name in ("one", "two"):
        got = (unpacked / name / "output_0.npy").read_bytes()
        assert got == (expected / "output_0.npy").read_bytes()


def test_native_errors(unpacked: Path) -> None:
    """Errors reach the reader of the output."""
    done = run_in_java(unpacked, ["--program", str(unpacked / "assets/programs/none.pte")])
    assert done.returncode == 1
    assert "error:" in done.stdout
    assert "none.pte" in done.stdout


def test_native_code_gets_text_as_it_is(unpacked: Path) -> None:
    """Includes characters that JNI's own strings encode differently."""
    name = "naïve 日本 🦊👨‍👩‍👧 𝄞"
    done = run_in_java(unpacked, ["--app", str(unpacked / "assets"), "--program", name])
    assert done.returncode == 1
    assert f'has no program "{name}"' in done.stdout
    done = run_in_java(unpacked, ["--program", str(unpacked / "🦊.pte")])
    assert "🦊.pte" in done.stdout


def test_an_app_runs_from_its_manifest(unpacked: Path) -> None:
    """Starts the runner like RunActivity."""
    command = arguments("--program", "two", "--json").splitlines()
    assert command[:2] == ["--app", "/app"]
    done = run_in_java(unpacked, ["--app", str(unpacked / "assets"), *command[2:]])
    assert done.returncode == 0, done.stdout + done.stderr
    assert [p["name"] for p in json.loads(done.stdout)["programs"]] == ["two"]


def test_a_conversation_of_a_language_model(tmp_path: Path) -> None:
    """Starts the runner like RunActivity does without arguments: messages in, answers out."""
    with zipfile.ZipFile(HERE / "chat.apk") as archive:
        archive.extractall(tmp_path)
        names = archive.namelist()
    files = [name for name in names if name.startswith("assets/")]
    line, *command = chat_of("What is\n 🦊?", *files).splitlines()
    assert command == ["--app", "/app", "--program", "llama", "--chat"]
    done = run_in_java(
        tmp_path,
        ["--app", str(tmp_path / "assets"), "--program", "llama_tiny_xnnpack", "--chat"],
        said=f"{line}\n",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    desktop = subprocess.run(
        [HERE / "chat_host_app/runner", "--chat"],
        input="What is 🦊?\n".encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    speed = re.compile(r"(prefill|decode): (\d+) tokens, [0-9.]+ tokens per second")
    assert len(speed.findall(done.stdout)) == 2
    assert speed.sub(r"\1 \2", done.stdout) == speed.sub(r"\1 \2", desktop.stdout.decode())


def chat_of(message: str, *files: str) -> str:
    """What RunActivity makes of a message, and the command line if the app has these files."""
    words = [*("-cp", HERE / "host_main.jar"), "rulesexecutorch.runner.ChatMain", message, *files]
    done = java(words, {})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_app_without_a_chat_format_runs_programs() -> None:
    files = ["manifest.json", "programs/one.pte", "assets/chat_format.json.txt", "chat_format.json"]
    assert chat_of("a", *files) == "a\nno chat\n"


def arguments(*extra: str) -> str:
    """The arguments that RunActivity passes to the runner."""
    words = ["-cp", HERE / "host_main.jar", "rulesexecutorch.runner.ArgumentsMain", *extra]
    done = java(words, {})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "extra",
    [
        [],
        ["--repeat", "10", "--json"],
        ["--program", "one", "--repeat=3", "--program=two", "--method", "forward"],
        ["--prompt", "--output", "--system=--etdump=x 🦊", "--temperature", "0.5", "--seed", "1"],
    ],
)
def test_arguments_of_other_apps(extra: list[str]) -> None:
    assert arguments(*extra).splitlines() == ["--app", "/app", *extra]


@pytest.mark.parametrize(
    "option",
    ["--app", "--atol", "--bundled", "--chat", "--data", "--etdump", "--input", "--manifest"]
    + ["--output", "--output_format", "--rtol", "--tokenizer", "-h", "", "one", "--program_x"],
)
def test_arguments_that_no_other_app_may_give(option: str) -> None:
    """Arguments that name a file are refused in any position."""
    for extra in (
        [option, "x"],
        [f"{option}=x"],
        ["--repeat", "2", option],
        ["--json", f"{option}="],
    ):
        said = arguments(*extra)
        assert said.startswith(f'error: the app takes no argument "{option}'), extra
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--program", "/data/other.pte"], '--program: got "/data/other.pte", expected one of the'),
        (["--program=../one"], '--program: got "../one", expected one of the app'),
        (["--program"], "--program has no value."),
        (["--json=1"], 'the app takes no argument "--json=1"'),
        (["(null)"], "an argument is null or contains the character U+0000."),
        (["--prompt", "(null)"], "an argument is null or contains the character U+0000."),
        (["--prompt", "a(zero)b"], "an argument is null or contains the character U+0000."),
    ],
)
def test_arguments_with_wrong_values(extra: list[str], words: str) -> None:
    assert arguments(*extra).startswith(f"error: {words}")
