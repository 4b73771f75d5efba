"""The Swift classes, compiled and run by Swift for Linux, on the C interface of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = Path("tools/runner/swift")
_APP = Path("tests/integration/variants/shared/assets")


def repository(name: str) -> Path:
    (found,) = Path("..").resolve().glob(f"*{name}")
    return (found / "BUILD.bazel").resolve().parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that the sandbox has beside the compiler: sources, the library, and an app."""
    folder = tmp_path_factory.mktemp("work")
    for source in (*_SOURCES.glob("*.swift"), Path("tests/integration/swift/main.swift")):
        shutil.copy(source, folder)
    modulemap = (_SOURCES / "module.modulemap").read_text()
    (folder / "module.modulemap").write_text(modulemap.replace("framework module", "module"))
    shutil.copy("tools/runner/api/executorch_app.h", folder)
    shutil.copy("tools/runner/libexecutorch_app.so", folder)
    for library in Path().glob("_solib_*/*runtime*/*.so*"):
        shutil.copy(library, folder)
    shutil.copytree(_APP, folder / "app")
    return folder


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command on the compiler's own Debian."""
    sandbox, swift = repository("executorch_bubblewrap"), repository("executorch_swift")
    places = ["--ro-bind", swift / "usr", "/usr", "--bind", folder, "/work", "--chdir", "/work"]
    for name in ("bin", "lib", "lib64"):
        places += ["--symlink", f"usr/{name}", f"/{name}"]
    places += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-all"]
    for name, value in (("HOME", "/tmp"), ("LD_LIBRARY_PATH", "/work")):
        places += ["--setenv", name, value]
    return subprocess.run(
        [sandbox / "usr/bin/bwrap", *places, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(sandbox / "usr/lib/x86_64-linux-gnu")},
    )


def test_an_app_in_swift(folder: Path) -> None:
    sources = sorted(path.name for path in folder.glob("*.swift"))
    libraries = ["-L", ".", "-lexecutorch_app", "-Xlinker", "-rpath-link", "-Xlinker", "."]
    flags = ["-warnings-as-errors", "-use-ld=lld", "-I", ".", *libraries, "-o", "main"]
    compiled = start(folder, "/usr/bin/swiftc", *flags, *sources)
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    (folder / "state").mkdir()
    done = start(folder, "./main", "app", "state")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = [
        "net_1 net_2",
        ' "program": "portable_1",',
        "several",
        "forward",
        "float32 [1, 100] true",
        'variant: got "none", expected one of: ',
        'device: got "a b=c", expected FACT=VALUE',
        "device: got a text with the character U+0000, expected one without.",
        'program: got "none", expected one of: net_1, net_2',
        "takes 1 inputs, got 0",
        "is int64 (1, 64), expected float32 (1, 64)",
        "needs a tokenizer",
    ]
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected), done.stdout
    for line, words in zip(lines, expected, strict=True):
        assert words in line, done.stdout
