"""Binaries that run here print the expected output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.program_starters import STARTERS

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


@pytest.mark.parametrize("system", ["android", "linux"])
def test_output(system: str) -> None:
    """Streams, files, errno, threads, objects before and after main."""
    # It finds libraries of the build beside itself, not beside a link to it.
    program = Path(os.path.realpath(HERE / f"sample_{system}_{_CPU}"))
    ran = _run(*STARTERS[f"{system}_{_CPU}"], program)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, _OUTPUT, "tes\n")
