"""`et run`: programs and bundles in ExecuTorch's runtime, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import torch
from commands import Et
from etcli import execution
from etlink import process
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.exir import to_edge


class Double(torch.nn.Module):
    """Twice the first input and the second one."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 2 * x + y


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs programs in this process, which has torch: another one takes seconds to import it."""

    def answer(_: str, request: dict[str, Any], *__: object) -> dict[str, Any]:
        return execution.answer(json.loads(json.dumps(request, default=str)))

    monkeypatch.setattr(process, "ask", answer)


INPUTS = (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of portable operators."""
    path = tmp_path_factory.mktemp("run") / "double.pte"
    edge = to_edge(torch.export.export(Double(), INPUTS))
    path.write_bytes(edge.to_executorch().buffer)
    return path


def bundle(program: Path, path: Path, expected: torch.Tensor) -> Path:
    """The program with one test case."""
    case = MethodTestCase(inputs=list(INPUTS), expected_outputs=[expected])
    suite = MethodTestSuite(method_name="forward", test_cases=[case])
    bundled = BundledProgram(None, [suite], str(program))
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    return path


def test_files_as_inputs_and_outputs(et: Et, program: Path, tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", INPUTS[0].numpy())
    safetensors.torch.save_file({"0": INPUTS[1]}, tmp_path / "y.safetensors")
    given = ["--input", tmp_path / "x.npy", "--input", tmp_path / "y.safetensors"]
    out = tmp_path / "out.safetensors"
    result = et("run", program, *given, "--output", out, "--repeat", 3, "--json")
    assert (result.code, result.err) == (0, "")
    [run] = result.json["runs"]
    assert run["outputs"][0]["first"] == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert len(run["seconds"]) == 3
    torch.testing.assert_close(safetensors.torch.load_file(out)["0"], 2 * INPUTS[0] + 1)


def test_filled_inputs(here: None, et: Et, program: Path) -> None:
    [run] = et("run", program, "--fill", "ones", "--json").json["runs"]
    assert run["outputs"][0]["first"] == [3.0] * 6
    runs = [et("run", program, "--seed", s, "--json").json["runs"][0] for s in (1, 1, 2)]
    first, again, other = (run["inputs"] for run in runs)
    assert first == again != other


def test_a_bundle_is_checked(here: None, et: Et, program: Path, tmp_path: Path) -> None:
    right = bundle(program, tmp_path / "right.bpte", 2 * INPUTS[0] + 1)
    result = et("run", right)
    assert (result.code, result.err) == (0, "")
    assert "as expected" in result.out
    inspected = et("inspect", right, "--json").json
    assert inspected["kind"] == "bundled program"
    assert inspected["cases"][0]["inputs"] == [{"dtype": "float32", "shape": [2, 3]}] * 2
    wrong = bundle(program, tmp_path / "wrong.bpte", 2 * INPUTS[0])
    result = et("run", wrong)
    assert result.code == 1
    assert "wrong: output 0: the largest difference is 1 at [0, 0]" in result.out
    assert et("run", wrong, "--atol", "1.5").code == 0
    [line] = et("diff", right, wrong, "--json").json["other"]
    assert line == "the test cases differ: inputs or expected outputs"


def test_damaged_bundles(et: Et, program: Path, tmp_path: Path) -> None:
    whole = bundle(program, tmp_path / "b.bpte", INPUTS[0]).read_bytes()
    path = tmp_path / "damaged.bpte"
    refused = 0
    for end in range(8, len(whole), 37):
        changed = bytearray(whole)
        changed[end] ^= 0xFF
        for data in (whole[:end], bytes(changed)):
            path.write_bytes(data)
            result = et("inspect", path)
            if result.code:
                refused += 1
                assert result.code == 2
                assert result.err.startswith("error: ") and result.err.count("\n") == 1
                assert str(path) in result.err
    assert refused > len(whole) // 37


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "prefill"], 'double.pte has no method "prefill"'),
        (["--input", "bad.npy"], "Input 0: got float64 [5], expected float32 of at most [2, 3]."),
        (["--input", "no.txt"], "no.txt is neither .npy nor .safetensors."),
        (["--input", "cut.npy"], "cut.npy cannot be read: "),
        (["more"], "double.pte takes no arguments: got more."),
    ],
)
def test_messages(
    here: None, et: Et, program: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    numpy.save(tmp_path / "bad.npy", numpy.zeros(5))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "bad.npy").read_bytes()[:20])
    (tmp_path / "no.txt").write_text("")
    words = [str(tmp_path / a) if "." in a else a for a in arguments]
    result = et("run", program, *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err and result.err.count("\n") == 1


def test_what_the_runtime_lacks(here: None, et: Et, program: Path, tmp_path: Path) -> None:
    inspected = et("inspect", "--runtime", program, "--json").json
    assert inspected["runtime"] == {"missing_backends": [], "missing_operators": []}
    whole = program.read_bytes()
    other = tmp_path / "other.pte"
    assert b"aten::add" in whole
    other.write_bytes(whole.replace(b"aten::add", b"aten::odd"))
    result = et("inspect", "--runtime", other)
    assert "! This machine's runtime lacks the operator aten::odd.out" in result.out
    result = et("run", other)
    assert (result.code, result.out) == (2, "")
    assert "on this machine lacks aten::odd.out." in result.err


def test_a_runtime_that_crashes(
    et: Et, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.abort()\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = et("run", program)
    assert result.code == 2
    assert "double.pte: ExecuTorch's runtime crashed with SIGABRT." in result.err
