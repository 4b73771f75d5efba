"""et_program_test on older runtimes: table and messages. The runners are fakes: shell scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from etlower import arrays, older
from etlower.arrays import of_torch
from etlower.expected import Case
from etlower.native import Measured, ProgramRun
from etlower.outputs import Tolerance, largest_difference

from tests.unit.linker.synthetic import SyntheticProgram

CASE = Case("forward", 0, False, inputs=(), outputs=(of_torch(torch.zeros(2)),))
REPORT = json.dumps(
    {
        "peak_bytes": 5_000_000,
        "memory_at_start": {"resident_bytes": 2_000_000},
        "programs": [
            {"load_ms": 1.5, "output_values": [{"name": "output_0", "kind": "tensor"}]},
        ],
    }
)


@pytest.fixture
def run(tmp_path: Path) -> ProgramRun:
    program = SyntheticProgram(methods={"forward": {}}, delegates=[], named={})
    program.write(tmp_path / "net.pte")
    return ProgramRun(tmp_path / "net.pte", [], tmp_path / "expected", tmp_path / "work")


def runner(path: Path, version: str, output: Sequence[float] = (), more: str = "") -> list[str]:
    """A runner that gives one output, and the words of --older for it."""
    outputs = path.with_suffix(".safetensors")
    arrays.write(outputs, {"output_0": of_torch(torch.tensor(output))}, "")
    info = f'{{"version": "{version}", "backends": [], "operators": []}}'
    path.write_text(
        f"""#!/bin/sh
if [ "$1" = --runtime_info ]; then echo '{info}'; exit; fi
{more}
while [ $# -gt 0 ]; do [ "$1" = --output ] && folder=$2; shift; done
mkdir -p "$folder" && cp "{outputs}" "$folder/outputs.safetensors"
echo '{REPORT}'
"""
    )
    path.chmod(0o755)
    return ["1.4.1", str(path), "lib/libcore.so", "python_names/libpython.so"]


def compare(words: list[str], run: ProgramRun, cases: Sequence[Case] = (CASE,)) -> list[str]:
    rows = [("1.5.1", Measured(1e-7, 2.0, 4_000_000))]
    return older.compare([tuple(words)], run, cases, Tolerance(1e-4, 1e-4), rows)


def test_one_table(run: ProgramRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(runner(tmp_path / "runner", "1.4.1", [0.0, 1e-5]), run) == []
    *_, titles, current, old = capsys.readouterr().out.splitlines()
    assert titles == "ExecuTorch  largest difference  load ms  peak MB"
    assert current == "1.5.1                    1e-07      2.0      4.0"
    assert old == "1.4.1                    1e-05      1.5      3.0"


def test_a_difference_names_the_version(run: ProgramRun, tmp_path: Path) -> None:
    (problem,) = compare(runner(tmp_path / "runner", "1.4.1", [0.0, 0.5]), run)
    assert problem.startswith(
        'ExecuTorch 1.4.1: method "forward", input 0, output 0: the largest difference is 0.5'
    )


def test_a_crash_is_one_version_s_problem(run: ProgramRun, tmp_path: Path) -> None:
    words = runner(tmp_path / "runner", "1.4.1", [0.0], more="kill -SEGV $$")
    (problem,) = compare(words, run)
    assert problem == (
        "ExecuTorch 1.4.1: ExecuTorch's runtime ended with SIGSEGV and without a message."
    )


def test_a_runner_of_another_version(run: ProgramRun, tmp_path: Path) -> None:
    (problem,) = compare(runner(tmp_path / "runner", "1.5.0", [0.0, 0.0]), run)
    assert problem == "ExecuTorch 1.4.1: version of the runtime: got 1.5.0, expected 1.4.1."


def test_the_runner_finds_python_names_before_torch(
    run: ProgramRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site/torch/lib").mkdir(parents=True)
    monkeypatch.setenv("ET_RUNTIME_ROOTS", f"{tmp_path / 'light'}:{tmp_path / 'site'}")
    shown = tmp_path / "shown"
    words = runner(tmp_path / "runner", "1.4.1", [0.0, 0.0], f'echo "$LD_LIBRARY_PATH" > {shown}')
    assert compare(words, run) == []
    here = Path.cwd()
    folders = [here / "lib", here / "python_names", tmp_path / "site/torch/lib"]
    assert shown.read_text().strip() == ":".join(map(str, folders))


@pytest.mark.parametrize(
    ("got", "wanted", "largest"),
    [
        (torch.tensor([1.0, 4.0]), torch.tensor([1.5, 2.0]), 2.0),
        (torch.zeros(0), torch.zeros(0), 0.0),
        (torch.zeros(2), torch.zeros(3), math.inf),
        (3, 1.0, 2.0),
        (torch.tensor(3), 1, 2.0),
    ],
)
def test_largest_difference(got: Any, wanted: Any, largest: float) -> None:
    values = [of_torch(v) if isinstance(v, torch.Tensor) else v for v in (got, wanted)]
    assert largest_difference(*values) == largest
