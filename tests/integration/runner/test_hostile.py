"""Small files that would exhaust memory or time, or access other files: one quick error each."""

from __future__ import annotations

import random
import resource
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.runner_files import KINDS, Case, cases, generated
from tests.integration.runner.runner_process import PROGRAMS, RUNNER

_BYTES = 2 << 30
_SECONDS = 10
_ROUNDS = 60
_FILES = {
    "bundled": "x.bpte",
    "data": "x.ptd",
    "manifest": "manifest.json",
}


def written(kind: str, data: bytes, folder: Path) -> Path:
    path = folder / _FILES.get(kind, f"x.{kind}")
    path.write_bytes(data)
    return path


def words(kind: str, path: Path) -> Sequence[str | Path]:
    """Arguments that make the runner read a file."""
    output = ["--output", path.parent / "inner" / "out"]
    if kind == "manifest":
        return ["--app", path.parent, *output]
    if kind == "bundled":
        return ["--bundled", path]
    program = ["--program", PROGRAMS / "portable.pte"]
    if kind == "data":
        return [*program, "--data", path, *output]
    # What is loaded before inputs are read.
    return [*program, "--data", PROGRAMS / "portable.ptd", "--input", path, *output]


def bounded(arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))

    return subprocess.run(
        [RUNNER, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        preexec_fn=limit,
    )


@pytest.mark.few(24)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_one_sentence(case: Case, tmp_path: Path) -> None:
    path = written(case.kind, case.data, tmp_path)
    done = bounded(words(case.kind, path))
    assert done.returncode == 1, (done.stdout[:200], done.stderr[:500])
    assert case.expected in done.stderr, done.stderr[:500]
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr[:500]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.few(2)
def test_others_of_the_kind(kind: str, tmp_path: Path) -> None:
    generator = random.Random(kind)
    for _ in range(_ROUNDS):
        path = written(kind, generated(kind, generator), tmp_path)
        done = bounded(words(kind, path))
        assert done.returncode in (0, 1), (done.returncode, done.stderr[:500])
        assert done.stderr.count("\n") == (done.returncode == 1), done.stderr[:500]
