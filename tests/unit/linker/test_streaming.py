"""Linking takes constant memory, whatever the weights weigh. Needs no torch."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from etlink.lowered import Lowered, NamedData, write_index
from made_up import MadeUp

GIGABYTE = 1 << 30
LIMIT = 200 << 20

_LINK = """
import resource, sys
from etlink.__main__ import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
sys.exit(code)
"""


@pytest.fixture
def huge(tmp_path: Path) -> Lowered:
    """A lowered program that holds one datum of a gigabyte, in a file that takes no space."""
    lowered = MadeUp().lower(tmp_path / "lowered")
    blob = "0" * 64
    with open(lowered.folder / "blobs" / blob, "wb") as out:
        out.truncate(GIGABYTE)
    named = (*lowered.index.named_data, NamedData("huge", blob, GIGABYTE))
    write_index(lowered.folder, dataclasses.replace(lowered.index, named_data=named))
    return Lowered(lowered.folder)


def test_a_gigabyte_is_linked_in_little_memory(huge: Lowered, tmp_path: Path) -> None:
    data = tmp_path / "p.ptd"
    command = [sys.executable, "-B", "-c", _LINK, "--lowered", str(huge.folder)]
    command += ["--program", str(tmp_path / "p.pte"), "--data", str(data)]
    places = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": places}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert data.stat().st_size > GIGABYTE
        assert int(done.stdout) < LIMIT, f"linking took {int(done.stdout) >> 20} MiB"
    finally:
        data.unlink(missing_ok=True)
