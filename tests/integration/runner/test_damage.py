"""Missing, truncated, damaged or random files: the same outputs or one error."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.integration.runner.runner_process import PROGRAMS, run, run_binary, write_manifest

ROUNDS = 150
FAULTY = Path("tests/integration/runner/faulty_runner").absolute()
SEPARATE = ["xnnpack", "portable"]


def flipped(data: bytes, generator: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 8])):
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def outputs_of(program: Path, *options: str | Path) -> np.ndarray | None:
    """The outputs with the data beside the program; None: it ended with an error."""
    folder = program.parent / "out"
    result = run("--program", program, *options, "--output", folder)
    return np.load(folder / "output_0.npy") if result.code == 0 else None


def data_options(program: Path) -> list[str | Path]:
    data = program.with_suffix(".ptd")
    return ["--data", data] if (PROGRAMS / data.name).exists() else []


@pytest.mark.parametrize("name", [*SEPARATE, "embedded"])
@pytest.mark.parametrize("suffix", [".pte", ".ptd"])
@pytest.mark.few(3)
def test_truncated_files(name: str, suffix: str, copied: Callable[[str], Path]) -> None:
    program = copied(name)
    victim = program.with_suffix(suffix)
    if not victim.exists():
        pytest.skip("the weights are in the program")
    good = victim.read_bytes()
    generator = random.Random(f"{name}{suffix}")
    for size in [0, 1, 7, 8, 12, 31, 32, 47, 48, *generator.sample(range(len(good)), ROUNDS)]:
        victim.write_bytes(good[:size])
        result = run("--program", program, *data_options(program))
        assert result.code == 1, size


@pytest.mark.parametrize("name", [*SEPARATE, "embedded", "methods", "types"])
@pytest.mark.parametrize("suffix", [".pte", ".ptd"])
@pytest.mark.few(2)
def test_flipped_files_never_crash(name: str, suffix: str, copied: Callable[[str], Path]) -> None:
    program = copied(name)
    victim = program.with_suffix(suffix)
    if not victim.exists():
        pytest.skip("the weights are in the program")
    good = victim.read_bytes()
    generator = random.Random(f"{name}{suffix}")
    method = ["--method", "batch"] if name == "methods" else []
    for _ in range(ROUNDS):
        victim.write_bytes(flipped(good, generator))
        run("--program", program, *data_options(program), *method)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SEPARATE)
@pytest.mark.parametrize("suffix", [".pte", ".ptd"])
def test_flipped_files_are_found(name: str, suffix: str, copied: Callable[[str], Path]) -> None:
    program = copied(name)
    data = program.with_suffix(".ptd")
    manifest = write_manifest(
        program.with_suffix(".manifest.json"), program, [data], by_name=name == "portable"
    )
    options: list[str | Path] = ["--manifest", manifest, "--verify"]
    expected = outputs_of(program, *options)
    assert expected is not None
    victim = program.with_suffix(suffix)
    good = victim.read_bytes()
    generator = random.Random(f"{name}{suffix}")
    errors = 0
    for _ in range(ROUNDS):
        victim.write_bytes(flipped(good, generator))
        got = outputs_of(program, *options)
        errors += got is None
        if got is not None:
            np.testing.assert_array_equal(got, expected)
    assert errors == ROUNDS if suffix == ".pte" else errors > 0


@pytest.mark.parametrize("suffix", [".pte", ".ptd"])
@pytest.mark.parametrize("root", [0x1000, 0x7FFFFFFF, 0xFFFFFFFC])
def test_tables_outside_of_the_file(suffix: str, root: int, copied: Callable[[str], Path]) -> None:
    program = copied("xnnpack")
    victim = program.with_suffix(suffix)
    victim.write_bytes(root.to_bytes(4, "little") + victim.read_bytes()[4:])
    result = run("--program", program, *data_options(program))
    assert f"{victim} is damaged: its tables lead outside of them" in result.error


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", [".pte", ".ptd", ".manifest.json"])
def test_garbage(suffix: str, copied: Callable[[str], Path]) -> None:
    program = copied("xnnpack")
    data = program.with_suffix(".ptd")
    manifest = write_manifest(program.with_suffix(".manifest.json"), program, [data])
    victim = program.with_suffix(suffix)
    marks = {".pte": b"ET12", ".ptd": b"FT01FH01", ".manifest.json": b""}[suffix]
    generator = random.Random(suffix)
    for number in range(60):
        garbage = bytearray(generator.randbytes(generator.choice([5, 64, 4000])))
        if number % 2 and len(garbage) > 16:
            garbage[4 : 4 + len(marks)] = marks
        victim.write_bytes(garbage)
        # Found beside the program, too.
        assert run("--program", program, "--data", data).code == 1
        assert run("--program", program, "--manifest", manifest).code == 1


def test_flipped_manifest_never_crashes(copied: Callable[[str], Path]) -> None:
    program = copied("xnnpack")
    manifest = program.with_suffix(".manifest.json")
    write_manifest(manifest, program, [program.with_suffix(".ptd")])
    good = manifest.read_bytes()
    generator = random.Random("manifest")
    for _ in range(ROUNDS):
        manifest.write_bytes(flipped(good, generator))
        run("--program", program, "--manifest", manifest, "--verify")
        manifest.write_bytes(good[: generator.randrange(len(good) - 1)])
        assert run("--program", program, "--manifest", manifest).code == 1


@pytest.mark.parametrize("name", SEPARATE)
def test_missing_data(name: str, copied: Callable[[str], Path]) -> None:
    program = copied(name)
    result = run("--program", program)
    assert result.code == 1
    assert "cannot be loaded" in result.error and ".ptd files" in result.error
    missing = run("--program", program, "--data", program.with_name("none.ptd"))
    assert "none.ptd cannot be opened: No such file" in missing.error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"XnnpackBackend",
            b"UnknownBackend",
            "needs the backend UnknownBackend, which this runtime does not have; it has: ",
        ),
        (
            b"XnnpackBackend",
            b"UnavailableOne",
            "needs the backend UnavailableOne, which does not work on this machine; install its "
            "driver or library",
        ),
        (
            b"XnnpackBackend",
            b"ThrowingOneOne",
            'while loading {program}: method "forward": no device; a backend lacks its driver or '
            "an operator, or memory has run out.",
        ),
        (
            b"aten::",
            b"none::",
            'method "forward" cannot be loaded: it uses an operator that this runtime does not '
            "have (ExecuTorch error 0x14: kernel 'none::",
        ),
    ],
)
def test_what_the_runtime_lacks(
    old: bytes, new: bytes, message: str, copied: Callable[[str], Path]
) -> None:
    """A backend, its driver or an operator: no message says only that a file is damaged."""
    program = copied("xnnpack" if b"Xnnpack" in old else "portable")
    changed = program.read_bytes()
    assert old in changed
    program.write_bytes(changed.replace(old, new))
    result = run_binary(FAULTY, "--program", program, *data_options(program))
    assert result.code == 1
    assert message.format(program=program) in result.error, result.error


def test_program_given_as_data_and_data_as_program(copied: Callable[[str], Path]) -> None:
    program = copied("xnnpack")
    data = program.with_suffix(".ptd")
    assert "is not an ExecuTorch program" in run("--program", data).error
    result = run("--program", program, "--data", program)
    assert "is not an ExecuTorch data file" in result.error


def test_data_given_twice(copied: Callable[[str], Path]) -> None:
    program = copied("xnnpack")
    data = program.with_suffix(".ptd")
    result = run("--program", program, "--data", data, "--data", data)
    assert result.code == 1
    assert "is in both" in result.error


def test_nothing_runs_if_a_later_program_is_damaged(
    copied: Callable[[str], Path], tmp_path: Path
) -> None:
    good = copied("types")
    bad = copied("embedded")
    bad.write_bytes(bad.read_bytes()[:100])
    result = run("--program", good, "--output", tmp_path / "out", "--program", bad)
    assert result.code == 1
    assert not (tmp_path / "out").exists()
