"""Bundled programs: runs their cases, and reports differences."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration.runner.nets import Mlp
from tests.integration.runner.runner_process import PROGRAMS, run


def expected_output() -> bytes:
    """The first case's output in the bundle, as the eager model computes it."""
    torch.manual_seed(0)
    net = Mlp().eval()
    data = (PROGRAMS / "xnnpack.bpte").read_bytes()
    # The inputs are the only 2 * 16 floats whose outputs are in the file, too.
    for start in range(0, len(data) - 128, 4):
        inputs = torch.from_numpy(np.frombuffer(data, np.float32, 32, start).copy()).view(2, 16)
        if bool(torch.isfinite(inputs).all()) and inputs.abs().min() > 1e-6:
            with torch.no_grad():
                output = net(inputs).numpy().tobytes()
            if output in data:
                return output
    raise AssertionError("the bundle does not contain the eager model's outputs")


@pytest.mark.parametrize(("name", "cases"), [("methods", 2), ("types", 1), ("xnnpack", 1)])
def test_cases_of_a_bundle(name: str, cases: int) -> None:
    bundle = PROGRAMS / f"{name}.bpte"
    (program,) = run("--bundled", bundle, "--json").report["programs"]
    assert program["bundled"]["cases"] == cases
    assert program["bundled"]["largest_difference"] < 1e-5
    assert len(program["run_ms"]) == cases
    text = run("--bundled", bundle).output
    assert f"{name}.bpte: {cases} test case" in text


def test_one_method() -> None:
    bundle = PROGRAMS / "methods.bpte"
    (program,) = run("--bundled", bundle, "--method", "batch", "--json").report["programs"]
    assert program["bundled"]["cases"] == 1
    result = run("--bundled", bundle, "--method", "none")
    assert 'has no test case for method "none"' in result.error


def test_beside_other_programs() -> None:
    both = ["--bundled", PROGRAMS / "xnnpack.bpte", "--program", PROGRAMS / "types.pte", "--json"]
    programs = run(*both).report["programs"]
    assert "bundled" in programs[0] and "bundled" not in programs[1]


def test_another_output_is_told(tmp_path: Path) -> None:
    bundle = tmp_path / "x.bpte"
    data = (PROGRAMS / "xnnpack.bpte").read_bytes()
    good = expected_output()
    numbers = np.frombuffer(good, np.float32).copy()
    numbers[9] += 0.5
    bundle.write_bytes(data.replace(good, numbers.tobytes()))
    result = run("--bundled", bundle)
    assert result.code == 1
    assert (
        'method "forward", case 0: output_0 differs by up to 0.5, at (1, 1): got ' in result.error
    )
    assert "1 of 16 numbers are outside of 0.0001 + 0.0001 * |expected|" in result.error
    assert run("--bundled", bundle, "--atol", "0.51").code == 0
    assert run("--bundled", bundle, "--rtol", "1e9").code == 0
    numbers[9] = np.nan
    bundle.write_bytes(data.replace(good, numbers.tobytes()))
    result = run("--bundled", bundle, "--atol", "1e30")
    assert "differs by up to inf, at (1, 1)" in result.error


def test_integers_have_to_be_equal(tmp_path: Path) -> None:
    """The outputs of int64 zeros are zeros, the largest tensor of eight-byte ones twice those."""
    bundle = tmp_path / "x.bpte"
    data = (PROGRAMS / "types.bpte").read_bytes()
    two = struct.pack("<5q", *[2] * 5)
    assert data.count(two) == 1
    bundle.write_bytes(data.replace(two, struct.pack("<5q", 2, 2, 2, 2, 3)))
    result = run("--bundled", bundle, "--atol", "100")
    assert "output_3 differs by up to 1, at (0, 4): got 2, expected 3" in result.error


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ([2, 2, 2, 2, 2**60 + 1], f"up to {2**60 - 1}, at (0, 4): got 2, expected {2**60 + 1}"),
        ([2 + 2**60, 2, 2, 2, 11 + 2**60], f"up to {2**60 + 9}, at (0, 4): got 2, "),
        ([2, -(2**63), 2, 2, 1], f"up to {2**63 + 2}, at (0, 1): got 2, expected {-(2**63)}; 2 of"),
        ([2, 2**63 - 1, 2, 2, 1], f"up to {2**63 - 3}, at (0, 1): got 2, expected {2**63 - 1}; 2"),
    ],
)
def test_integers_that_no_double_has(expected: list[int], words: str, tmp_path: Path) -> None:
    bundle = tmp_path / "x.bpte"
    data = (PROGRAMS / "types.bpte").read_bytes()
    bundle.write_bytes(data.replace(struct.pack("<5q", *[2] * 5), struct.pack("<5q", *expected)))
    assert f"output_3 differs by {words}" in run("--bundled", bundle, "--atol", "100").error


def test_wrong_bounds() -> None:
    for value in ("-1", "x", "nan"):
        result = run("--bundled", PROGRAMS / "xnnpack.bpte", "--atol", value)
        assert f'--atol is "{value}", expected a number that is not negative' in result.error


def test_files_that_are_no_bundles(tmp_path: Path) -> None:
    result = run("--bundled", PROGRAMS / "types.pte")
    assert 'is not a bundled program: it has no "BP08" at byte 4' in result.error
    assert "cannot be opened" in run("--bundled", tmp_path / "none.bpte").error


@pytest.mark.parametrize("name", ["methods", "types", "xnnpack"])
@pytest.mark.few(1)
def test_damaged_bundles_never_crash(name: str, tmp_path: Path) -> None:
    good = (PROGRAMS / f"{name}.bpte").read_bytes()
    victim = tmp_path / "x.bpte"
    generator = random.Random(name)
    for _ in range(100):
        victim.write_bytes(good[: generator.randrange(len(good))])
        assert run("--bundled", victim).code == 1
        changed = bytearray(good)
        changed[generator.randrange(len(good))] ^= 1 << generator.randrange(8)
        victim.write_bytes(changed)
        run("--bundled", victim)
