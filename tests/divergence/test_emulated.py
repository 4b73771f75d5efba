"""No module of clean programs is named where emulators run them, and the tables have modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_BACKENDS = Path("tests/backends").absolute()
_PROGRAMS = sorted(path.stem for path in _BACKENDS.glob("*.divergence"))


def test_there_are_programs() -> None:
    assert len(_PROGRAMS) == int(os.environ["PROGRAMS"])


@pytest.mark.parametrize("program", _PROGRAMS)
def test_none_is_named(program: str, tmp_path: Path) -> None:
    command = [_BACKENDS / f"{program}.divergence", "--save", tmp_path / "saved.json"]
    done = subprocess.run(
        command,
        env={**os.environ, "BUILD_WORKING_DIRECTORY": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-4000:], file=sys.stderr)
    assert done.returncode == 0, done.stderr[-4000:]
    method = json.loads((tmp_path / "saved.json").read_text(encoding="utf-8"))["methods"]["forward"]
    assert method["first"] is None
    assert method["outputs"]["program"]["sqnr_db"] > 10
    assert method["outputs"]["tapped"]["sqnr_db"] > 10
    compared = [m for m in method["modules"] if m.get("program", {}).get("sqnr_db") is not None]
    assert len(compared) >= 2
