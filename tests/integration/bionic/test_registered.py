"""EtScan reads from Android's libraries just what they register when loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from etbundle.scan import scan

_HERE = Path("tests/integration/bionic").absolute()
_BENCH = Path("tests/bionic").absolute()


@pytest.mark.parametrize("platform", ["android_arm64", "android_x86_64"])
def test_libraries_register_what_is_found(platform: str) -> None:
    app = _HERE / f"registered_{platform}"
    done = subprocess.run(
        [_BENCH / f"run_{platform}", app / "runner"], capture_output=True, check=True, text=True
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    scanned = scan(app / "lib/libexecutorch_jni.so")
    assert sorted(name for kind, _, name in lines if kind == "operator") == list(scanned.operators)
    assert sorted(name for kind, _, name in lines if kind == "backend") == list(scanned.backends)
    assert len(scanned.operators) > 200 and scanned.backends
