"""The native code of an AAR for Android on x86_64, in a Java of this machine.

The bench of toolchains/bionic replaces Android's C library. It shows that the library is linked
correctly and that Java reaches it, but it is not Android.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from packed import HERE, TOOLS, ones, page_sizes, run_library, say

BENCH = Path("toolchains/bionic")


def floats(path: Path) -> tuple[float, ...]:
    """The numbers of a .npy file of float32."""
    contents = path.read_bytes()
    (length,) = struct.unpack_from("<H", contents, 8)
    data = contents[10 + length :]
    return struct.unpack(f"<{len(data) // 4}f", data)


def test_pages() -> None:
    """The bundled runtime's libraries load with pages of 16 KiB."""
    sizes = page_sizes(HERE / "device_library.aar")
    assert {Path(name).name for name in sizes} > {
        "libc++_shared.so",
        "libexecutorch_jni.so",
        "libfbjni.so",
    }
    assert set(sizes.values()) == {16384}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The AAR's files, and the bench's libraries beside its own."""
    with zipfile.ZipFile(HERE / "device_library.aar") as archive:
        archive.extractall(tmp_path)
    for library in BENCH.glob("lib*.so"):
        shutil.copy(library, tmp_path / "jni/x86_64")
    return tmp_path


def run(folder: Path, *arguments: str, jar: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ProgramsMain under the bench, with the AAR's classes or those of a .jar."""
    libraries = folder / "jni/x86_64"
    classes = [jar] if jar else [folder / "classes.jar", HERE / "programs_main.jar"]
    bench = {"LD_PRELOAD": str(libraries / "libbench.so")}
    return run_library(libraries, [folder / "assets", *arguments], classes, bench)


def test_classes_of_the_aar(unpacked: Path) -> None:
    """Java runs a program and chats with the AAR's classes and Android's libraries."""
    done = run(unpacked, "one")
    assert done.returncode == 0, done.stdout + done.stderr
    head, _, numbers = done.stdout.partition("\n")
    assert head == "[llama_tiny_xnnpack, one] one float32 [2, 8]"
    app = HERE / "host_app"
    say(
        *[app / "runner", "--program", app / "programs/one.pte"],
        *["--data", app / "data/weights.ptd", "--output", unpacked / "expected"],
        *["--input", ones(unpacked / "ones.npy")],
    )
    assert [float(number) for number in numbers.split()] == pytest.approx(
        floats(unpacked / "expected/output_0.npy"), rel=1e-5, abs=1e-6
    )
    message = "What is 🦊?"
    done = run(unpacked, "llama_tiny_xnnpack", message)
    assert done.returncode == 0, done.stdout + done.stderr
    # The app of this machine.
    desktop = say(
        *[HERE / "chat_host_app/runner", "--json", "--prompt", message, "--max_new_tokens", "8"]
    )
    answer = json.loads(desktop)["programs"][0]["answer"]["text"]
    assert done.stdout == f"[llama_tiny_xnnpack, one] llama_tiny_xnnpack {answer}\n"


def members(data: bytes) -> set[tuple[str, str]]:
    """Names and descriptors of a class file's methods."""
    (count,) = struct.unpack_from(">H", data, 8)
    texts: dict[int, str] = {}
    sizes = {
        3: 4,
        4: 4,
        5: 8,
        6: 8,
        7: 2,
        8: 2,
        9: 4,
        10: 4,
        11: 4,
        12: 4,
        15: 3,
        16: 2,
        17: 4,
        18: 4,
    }
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[index] = data[at + 3 : at + 3 + size].decode()
            at += 3 + size
        else:
            at += 1 + sizes[tag]
            index += tag in (5, 6)
        index += 1
    (interfaces,) = struct.unpack_from(">H", data, at + 6)
    at += 8 + 2 * interfaces
    found: set[tuple[str, str]] = set()
    # Fields, then methods.
    for _ in range(2):
        found = set()
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            _, name, kind, attributes = struct.unpack_from(">HHHH", data, at)
            found.add((texts[name], texts[kind]))
            at += 8
            for _ in range(attributes):
                at += 6 + struct.unpack_from(">I", data, at + 2)[0]
    return found


def test_release_build(unpacked: Path) -> None:
    """After R8 with the AAR's own rules, native code finds the classes that it looks up."""
    rules = unpacked / "app.txt"
    rules.write_text(
        "-keep class ProgramsMain { public static void main(java.lang.String[]); }\n"
        "-repackageclasses app\n-allowaccessmodification\n"
    )
    jar = unpacked / "app.jar"
    say(
        *[
            TOOLS / "r8",
            "--release",
            "--classfile",
            "--output",
            jar,
            "--lib",
            os.environ["ANDROID_JAR"],
        ],
        *["--pg-conf", rules, "--pg-conf", unpacked / "proguard.txt"],
        *[unpacked / "classes.jar", HERE / "programs_main.jar"],
    )
    with zipfile.ZipFile(jar) as archive:
        classes = {
            name.removesuffix(".class"): members(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".class")
        }
    assert [name for name in classes if name.startswith("app/")], "R8 renamed nothing"
    source = Path("tools/runner/java/jni.cc").read_text()
    native = re.findall(r"^NATIVE\(\w+, (\w+)\)", source, re.MULTILINE)
    assert len(native) > 10
    assert set(native) & {name for name, _ in classes["rulesexecutorch/Native"]} >= {
        "open",
        "openSession",
        "run",
        "openChat",
        "say",
    }
    for name in re.findall(r'FindClass\("(rulesexecutorch/\w+)"\)', source):
        assert name in classes
    ours = {method for name, methods in classes.items() for method in methods if "/" in name}
    looked_up = re.findall(r'MethodID\(\w+, "(\w+)", "(\S+)"\)', source)
    for name, kind in looked_up:
        if name != "allocateDirect":
            assert (name, kind) in ours
    assert len(looked_up) == len(re.findall(r"MethodID\(", source))
    for arguments in (["one"], ["llama_tiny_xnnpack", "What is 🦊?"]):
        done = run(unpacked, *arguments, jar=jar)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout == run(unpacked, *arguments).stdout
    assert 'program: got "none", expected one of: ' in (run(unpacked, "none", jar=jar).stderr)
