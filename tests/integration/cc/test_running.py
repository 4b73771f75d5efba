"""What can be started here prints what it should."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path("tests/integration/cc")

# Sum of threads, floating point, registered objects (one of them in a library that nobody calls).
_OUTPUT = """\
sum 30 1.5 11 1 a view
missing 0 No such file or directory
file first line
bye
"""


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    words = HERE / "words.txt"
    return subprocess.run([*command, words], capture_output=True, text=True, check=False)


_CPU = os.environ["SAMPLE_CPU"]

# What starts a system's programs here.
_STARTERS = {
    "linux": ["toolchains/qemu/run_aarch64.sh"] if _CPU == "arm64" else [],
    "android": [f"tests/bionic/run_android_{_CPU}"],
}


@pytest.mark.parametrize("system", _STARTERS)
def test_output(system: str) -> None:
    """Streams, files, errno, threads, objects before and after main."""
    # It finds libraries of the build beside itself, not beside a link to it.
    program = Path(os.path.realpath(HERE / f"sample_{system}_{_CPU}"))
    ran = _run(*_STARTERS[system], program)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, _OUTPUT, "tes\n")
