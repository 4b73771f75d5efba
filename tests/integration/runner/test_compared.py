"""et_program_test with the real runtime: types, methods, data files and orders of dimensions."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from etlower import compare, expected
from etlower.arrays import Array

from tests.integration.runner.runner_process import PROGRAMS


def compared(name: str, *more: str) -> int:
    """The exit code of a program's test, with the words that the rule writes."""
    words = ["--label=//m:test", f"--program={PROGRAMS / name}.pte"]
    words += [f"--manifest={PROGRAMS / name}.manifest.json"]
    words += [f"--expected={PROGRAMS / name}_model.expected.safetensors"]
    data = PROGRAMS / f"{name}.ptd"
    words += [f"--program_data={data}"] if data.exists() else []
    return compare.main([*words, "--atol=1e-5", "--rtol=1e-5", *more])


@pytest.mark.parametrize(
    "name", ["channels_last", "embedded", "methods", "portable", "types", "xnnpack"]
)
def test_programs_agree_with_their_models(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert compared(name) == 0
    assert "largest difference" in capfd.readouterr().out


def test_a_difference(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of one element that the eager model gives otherwise."""
    case = expected.read(PROGRAMS / "embedded_model.expected.safetensors")[0]
    data = case.outputs[0].data.copy()
    data[1, 2] += 3
    changed = dataclasses.replace(case, outputs=(Array("float32", data),))
    path = tmp_path / "changed.safetensors"
    expected.write(path, [changed])
    assert compared("embedded", f"--expected={path}") == 1
    text = 'FAILED: //m:test: method "forward", input 0, output 0: the largest difference is 3 at '
    assert text + "[1, 2]: got " in capfd.readouterr().err


def test_inputs_of_another_shape(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The runtime's sentence is the test's."""
    case = expected.read(PROGRAMS / "embedded_model.expected.safetensors")[0]
    changed = dataclasses.replace(case, inputs=(Array("float32", np.zeros((3, 3), "<f4")),))
    path = tmp_path / "changed.safetensors"
    expected.write(path, [changed])
    assert compared("embedded", f"--expected={path}") == 1
    assert "ERROR: //m:test: " in (printed := capfd.readouterr().err)
    assert "input_0 for " in printed
    assert 'method "forward" is float32 (3, 3), expected float32 (2, 16) at most.' in printed


def test_a_missing_data_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Before anything is loaded."""
    for name in ("portable.pte", "portable.manifest.json"):
        shutil.copyfile(PROGRAMS / name, tmp_path / name)
    words = [f"--program={tmp_path}/portable.pte"]
    words += [f"--manifest={tmp_path}/portable.manifest.json"]
    assert compared("embedded", *words) == 1
    printed = capfd.readouterr().err
    assert f"{tmp_path}/portable.ptd" in printed
    assert "data of //tests/integration/runner:portable; put it there or name it with" in printed
