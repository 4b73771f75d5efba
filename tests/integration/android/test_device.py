"""The native code of an APK for Android on x86_64, in a Java of this machine.

The bench of tests/bionic replaces Android's C library. It shows that the library is linked
correctly and that Java reaches it, but it is not Android.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from packed import HERE, ones, program_arguments, run_in_java, run_library, say

BENCH = Path("tests/bionic")


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The APK's files, and the bench's libraries beside its own."""
    with zipfile.ZipFile(HERE / "device.apk") as archive:
        archive.extractall(tmp_path)
    for library in BENCH.glob("lib*.so"):
        shutil.copy(library, tmp_path / "lib/x86_64")
    return tmp_path


def run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the native runner under the bench."""
    return run_in_java(folder, arguments, {"LD_PRELOAD": str(folder / "lib/x86_64/libbench.so")})


def floats(path: Path) -> tuple[float, ...]:
    """The numbers of a .npy file of float32."""
    contents = path.read_bytes()
    (length,) = struct.unpack_from("<H", contents, 8)
    data = contents[10 + length :]
    return struct.unpack(f"<{len(data) // 4}f", data)


def test_outputs(unpacked: Path) -> None:
    """Compares outputs of Android's runtime with those of this machine's."""
    done = run(unpacked, program_arguments(HERE / "device.apk", unpacked))
    assert done.returncode == 0, done.stdout + done.stderr
    app = HERE / "host_app"
    say(
        *[app / "runner", "--program", app / "programs/one.pte"],
        *["--data", app / "data/weights.ptd", "--output", unpacked / "expected"],
    )
    expected = floats(unpacked / "expected/output_0.npy")
    assert len(set(expected)) > 1
    for name in ("one", "two"):
        assert floats(unpacked / name / "output_0.npy") == pytest.approx(
            expected, rel=1e-5, abs=1e-6
        )


def test_errors(unpacked: Path) -> None:
    """Errors reach the reader of the output."""
    done = run(unpacked, ["--program", str(unpacked / "assets/programs/none.pte")])
    assert done.returncode == 1
    assert "none.pte" in done.stdout


def test_classes_of_the_aar(tmp_path: Path) -> None:
    """Java runs a program and chats with the AAR's classes and Android's libraries."""
    with zipfile.ZipFile(HERE / "device_library.aar") as archive:
        archive.extractall(tmp_path)
    libraries = tmp_path / "jni/x86_64"
    for library in BENCH.glob("lib*.so"):
        shutil.copy(library, libraries)
    bench = {"LD_PRELOAD": str(libraries / "libbench.so")}
    done = run_library(tmp_path, ["one"], bench)
    assert done.returncode == 0, done.stdout + done.stderr
    head, _, numbers = done.stdout.partition("\n")
    assert head == "[one, llama_tiny_xnnpack] one float32 [2, 8]"
    app = HERE / "host_app"
    say(
        *[app / "runner", "--program", app / "programs/one.pte"],
        *["--data", app / "data/weights.ptd", "--output", tmp_path / "expected"],
        *["--input", ones(tmp_path / "ones.npy")],
    )
    assert [float(number) for number in numbers.split()] == pytest.approx(
        floats(tmp_path / "expected/output_0.npy"), rel=1e-5, abs=1e-6
    )
    message = "What is 🦊?"
    done = run_library(tmp_path, ["llama_tiny_xnnpack", message], bench)
    assert done.returncode == 0, done.stdout + done.stderr
    # The app of this machine.
    desktop = say(
        *[HERE / "chat_host_app/runner", "--json", "--prompt", message, "--max_new_tokens", "8"]
    )
    answer = json.loads(desktop)["programs"][0]["answer"]["text"]
    assert done.stdout == f"[one, llama_tiny_xnnpack] llama_tiny_xnnpack {answer}\n"
