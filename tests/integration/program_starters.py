"""Commands that start programs of the platforms that run here."""

from __future__ import annotations

from pathlib import Path

# Platform to the command that a program's own is added to.
STARTERS: dict[str, list[Path]] = {
    "android_arm64": [Path("tests/bionic/run_android_arm64").absolute()],
    "android_x86_64": [Path("tests/bionic/run_android_x86_64").absolute()],
    "linux_arm64": [
        *(path.absolute() for path in Path("..").glob("*executorch_qemu/run_aarch64.sh"))
    ],
    "linux_x86_64": [],
}
