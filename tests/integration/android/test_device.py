"""The native code of an APK for Android on x86_64, in a Java of this machine.

The bench of tests/bionic replaces Android's C library. It shows that the library is linked
correctly and that Java reaches it, but it is not Android.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest
from packed import HERE, program_arguments, run_in_java, say

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
