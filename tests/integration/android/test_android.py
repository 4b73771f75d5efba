"""APK and AAR: contents, paths, signatures, and running their native code."""

from __future__ import annotations

import json
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from packed import HERE, TOOLS, manifest_of, offsets, ones, page_sizes, run_library, say

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
    assert "launchable-activity: name='com.example.chat.ChatActivity'" in said
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
    libraries = [n.removeprefix("lib/") for n in app["libraries"]]
    libraries.append("libexecutorch_app.so")
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
    for name in ("com/example/chat/ChatActivity", "rulesexecutorch/runner/AppFiles"):
        assert f"L{name};".encode() in dex
    assert b"Lrulesexecutorch/Programs;" in dex
    manifest = manifest_of(APK)
    assert list(manifest["programs"]) == ["one", "two"]
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


@pytest.mark.parametrize("package", [APK, AAR])
def test_native_code(package: Path, tmp_path: Path) -> None:
    """Java runs a program with the package's classes and libraries, like the app's runner."""
    done = run(package, tmp_path, "one")
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


def test_native_errors(tmp_path: Path) -> None:
    """With characters that JNI's own strings encode differently."""
    name = "naïve 日本 🦊👨‍👩‍👧 𝄞"
    done = run(APK, tmp_path, name)
    assert done.returncode == 1
    assert f'program: got "{name}", expected one of: one' in done.stderr


def test_a_chat(tmp_path: Path) -> None:
    """The APK's library and files give the same answer as the app's runner."""
    done = run(HERE / "chat.apk", tmp_path, "llama_tiny_xnnpack", "What is 🦊?")
    assert done.returncode == 0, done.stdout + done.stderr
    prompt = ["--prompt", "What is 🦊?", "--max_new_tokens", "8"]
    desktop = json.loads(say(HERE / "chat_host_app/runner", "--json", *prompt))
    answer = desktop["programs"][0]["answer"]["text"]
    assert done.stdout == f"[llama_tiny_xnnpack] llama_tiny_xnnpack {answer}\n"


def run(package: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ProgramsMain on an APK or AAR, which is unpacked to a folder."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    libraries = folder / ("lib" if package.suffix == ".apk" else "jni") / "x86_64"
    # An APK has them for Android only.
    own = folder / "classes.jar"
    classes = own if own.exists() else Path("tools/runner/java/executorch_app.jar")
    return run_library(
        libraries, [folder / "assets", *arguments], [classes, HERE / "programs_main.jar"]
    )
