"""The runner's outputs equal the eager model's."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.integration.runner.nets import Mlp
from tests.integration.runner.runner_process import PROGRAMS, RUNNER, run

WRITE_ORDER = Path("tests/integration/runner/libwrite_order.so").absolute()


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def eager(x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return Mlp().eval()(torch.from_numpy(x)).numpy()


def files_of(name: str) -> list[str | Path]:
    data = PROGRAMS / f"{name}.ptd"
    return ["--program", PROGRAMS / f"{name}.pte", *(["--data", data] if data.exists() else [])]


@pytest.mark.parametrize("name", ["xnnpack", "portable", "embedded"])
def test_outputs_equal_eager(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    given = saved(tmp_path / "x.npy", x)
    result = run(*files_of(name), "--input", given, "--output", tmp_path / "out")
    assert result.code == 0, result.error
    np.testing.assert_allclose(np.load(tmp_path / "out/output_0.npy"), eager(x), atol=1e-5)


def test_weight_cache_and_threads_change_no_output(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    given = saved(tmp_path / "x.npy", x)
    options = ["--weight_cache", "--threads", "2", "--repeat", "3"]
    pairs = [[*files_of("xnnpack"), "--input", given, "--output", tmp_path / n] for n in "ab"]
    result = run(*options, *pairs[0], *pairs[1])
    assert result.code == 0, result.error
    for name in "ab":
        np.testing.assert_allclose(np.load(tmp_path / name / "output_0.npy"), eager(x), atol=1e-5)


def test_example_inputs_are_a_fixed_pattern(tmp_path: Path) -> None:
    assert run(*files_of("xnnpack"), "--output", tmp_path).code == 0
    x = ((np.arange(32) + 8) % 16 - 8) / 8
    expected = eager(x.astype(np.float32).reshape(2, 16))
    np.testing.assert_allclose(np.load(tmp_path / "output_0.npy"), expected, atol=1e-5)


def test_every_dtype_of_a_program_goes_in_and_out(tmp_path: Path) -> None:
    inputs = [
        np.array([1, 2, 3], np.float32),
        np.array([[1, 2], [3, 4]], np.float64),
        np.array([1, -2, 3, -4], np.int32),
        np.array([[1, -2, 3, -4, 2**40]], np.int64),
        np.array([True, False, True]),
    ]
    options: list[str | Path] = []
    for number, array in enumerate(inputs):
        options += ["--input", saved(tmp_path / f"{number}.npy", array)]
    result = run(*files_of("types"), *options, "--output", tmp_path / "out")
    assert result.code == 0, result.error
    outputs = [np.load(tmp_path / "out" / f"output_{n}.npy") for n in range(5)]
    expected = [inputs[0] + np.float32([0.5, 1.5, 2.5]), *(2 * a for a in inputs[1:4]), ~inputs[4]]
    for got, array in zip(outputs, expected, strict=True):
        assert got.dtype == array.dtype
        np.testing.assert_array_equal(got, array)


def test_example_integers_and_flags_are_zeros(tmp_path: Path) -> None:
    assert run(*files_of("types"), "--output", tmp_path).code == 0
    assert not np.load(tmp_path / "output_2.npy").any()
    assert not np.load(tmp_path / "output_3.npy").any()
    assert np.load(tmp_path / "output_4.npy").all()


def test_other_orders_of_dimensions_are_row_major_in_files(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((1, 3, 4, 5)).astype(np.float32)
    given = saved(tmp_path / "x.npy", x)
    result = run(*files_of("channels_last"), "--input", given, "--output", tmp_path / "out")
    assert result.code == 0, result.error
    np.testing.assert_array_equal(np.load(tmp_path / "out/output_0.npy"), np.abs(x))


def test_methods_and_dynamic_shapes(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((2, 16)).astype(np.float32)
    given = saved(tmp_path / "x.npy", x)
    options = ["--method", "batch", "--input", given, "--output", tmp_path / "out"]
    result = run(*files_of("methods"), *options)
    assert result.code == 0, result.error
    np.testing.assert_allclose(np.load(tmp_path / "out/output_0.npy"), eager(x), atol=1e-5)


def test_report_has_each_program(tmp_path: Path) -> None:
    result = run(
        *files_of("xnnpack"), "--output", tmp_path, *files_of("types"), "--repeat", "4", "--json"
    )
    report = result.report
    assert [Path(p["program"]).name for p in report["programs"]] == ["xnnpack.pte", "types.pte"]
    for program in report["programs"]:
        assert program["method"] == "forward"
        assert len(program["run_ms"]) == 4
        for moment in ("memory_after_load", "memory_after_run"):
            memory = program[moment]
            assert memory["peak_bytes"] >= memory["resident_bytes"] > 0
            assert memory["resident_bytes"] >= memory["anonymous_bytes"] + memory["file_bytes"]
    assert report["programs"][0]["outputs"] == [f"{tmp_path}/output_0.npy"]
    # Their manifests prove that it is safe.
    assert report["weight_cache"] is True


def test_report_as_text() -> None:
    result = run(*files_of("types"))
    assert "types.pte: loaded in " in result.output and 'ran "forward" in ' in result.output


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 16), np.float64), "is float64 (2, 16), expected float32 (2, 16)"),
        (np.zeros((3, 16), np.float32), "is float32 (3, 16), expected float32 (2, 16)"),
        (np.zeros((16,), np.float32), "is float32 (16), expected float32 (2, 16)"),
        (np.zeros((1, 16), np.float32), "ExecuTorch error 0x"),
        (np.zeros((2, 16), ">f4"), "its dtype is '>f4', expected one of float32"),
        (np.zeros((2, 16), np.complex64), "its dtype is '<c8'"),
        (np.asfortranarray(np.zeros((2, 16), np.float32)), "Fortran order"),
    ],
)
def test_inputs_that_do_not_fit(array: np.ndarray, words: str, tmp_path: Path) -> None:
    result = run(*files_of("xnnpack"), "--input", saved(tmp_path / "x.npy", array))
    assert result.code == 1
    assert words in result.error


def test_damaged_inputs(tmp_path: Path) -> None:
    given = saved(tmp_path / "x.npy", np.zeros((2, 16), np.float32))
    good = given.read_bytes()
    generator = np.random.default_rng(4)
    for _ in range(60):
        given.write_bytes(good[: generator.integers(len(good))])
        assert run(*files_of("xnnpack"), "--input", given).code == 1
    for _ in range(60):
        changed = bytearray(good)
        changed[generator.integers(len(good))] ^= 1 << generator.integers(8)
        given.write_bytes(changed)
        run(*files_of("xnnpack"), "--input", given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "there is no --program"),
        (["--data", "a.ptd"], "--data stands before the first --program"),
        (["--program"], "--program has no value"),
        (["--program", "a.pte", "--repeat", "0"], '--repeat is "0", expected a number'),
        (["--program", "a.pte", "--threads", "x"], '--threads is "x", expected a number'),
        (["--program", "a.pte", "--threads", "1000000"], "expected a number from 1 to 1024"),
        (["--program", "a.pte", "--metod", "x"], 'unknown option "--metod"'),
        (["--program", "a.pte", "--method=x", "--method=y"], "--method is given twice"),
        (["--program", "none.pte"], "none.pte cannot be opened: No such file"),
        (["--program", "/"], "/ is not a file"),
    ],
)
def test_wrong_command_lines(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.code == 1
    assert words in result.error


def test_wrong_method_and_number_of_inputs() -> None:
    methods = run(*files_of("methods"))
    assert "its methods are: batch, one; choose one with --method" in methods.error
    assert 'has no method "two"' in run(*files_of("methods"), "--method", "two").error
    given = ["--input", "a.npy", "--input", "b.npy"]
    assert "takes 1 inputs, got 2" in run(*files_of("xnnpack"), *given).error


def test_closed_standard_output() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [RUNNER, *files_of("types"), "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written: Broken pipe.\n"


@pytest.mark.parametrize("arguments", [["--list"], ["--json"], ["--runtime_info"], ["--help"]])
@pytest.mark.parametrize("output", [">&-", "<&- >&-", "> /dev/full"])
def test_output_that_nothing_can_be_written_to(arguments: list[str], output: str) -> None:
    """Also if another file could get the number of the closed one."""
    script = f'exec "$0" "$@" {output}'
    command = ["sh", "-c", script, RUNNER, *files_of("types"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    reason = "No space left on device" if "full" in output else "Bad file descriptor"
    assert done.stderr == f"error: standard output cannot be written: {reason}.\n"


@pytest.mark.parametrize("format_", ["npy", "safetensors", "raw"])
def test_files_that_may_not_grow(format_: str, tmp_path: Path) -> None:
    """One error, no signal; existing files stay, and outputs are complete or absent."""
    folder = tmp_path / "out"
    folder.mkdir()
    name = "outputs.safetensors" if format_ == "safetensors" else None
    name = name or ("output_4.npy" if format_ == "npy" else "output_4.bin")
    (folder / name).write_bytes(b"before")

    def limit(size: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    command = [RUNNER, *files_of("types"), "--output", folder, "--output_format", format_]
    # Less than all, and less than the largest output.
    for size in (0, 10, 30):
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit(size))
        assert done.returncode == 1
        assert "cannot be written: File too large.\n" in done.stderr
        assert [path.name for path in folder.iterdir()] == [name]
        assert (folder / name).read_bytes() == b"before"
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert (folder / name).read_bytes() != b"before"
    assert not [path for path in folder.iterdir() if path.suffix == ".part"]


def test_output_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(*files_of("xnnpack"), "--output", tmp_path / "file" / "out")
    assert result.code == 1
    assert "cannot be created" in result.error


@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_files_are_on_the_disk_before_they_get_their_names(form: str, tmp_path: Path) -> None:
    """A loss of power leaves the old file or the new one, never an empty one."""
    order, out = tmp_path / "order", tmp_path / "out"
    environment = {"LD_PRELOAD": str(WRITE_ORDER), "WRITE_ORDER": str(order)}
    command = [RUNNER, *files_of("types"), "--output", out, "--output_format", form]
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
    calls = [line.split(" ", 1) for line in order.read_text().splitlines()]
    names = {path for what, path in calls if what == "rename"}
    assert names == {str(path) for path in out.iterdir()} and names
    first = next(i for i, (what, _) in enumerate(calls) if what == "rename")
    flushed = {re.sub(r"\.\d+\.part$", "", path) for what, path in calls[:first] if what == "fsync"}
    assert flushed == names
    assert calls[-1] == ["fsync", str(out)]


def test_a_part_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """In a container each process has the number 1: here it is known before the runner starts."""
    out = tmp_path / "out"
    out.mkdir()
    script = f'echo half > {out}/output_0.npy.$$.part; exec "$@"'
    command = [RUNNER, *files_of("embedded"), "--output", out]
    subprocess.run(["/bin/sh", "-c", script, "sh", *command], check=True, capture_output=True)
    assert [path.name for path in out.iterdir()] == ["output_0.npy"]
    assert np.load(out / "output_0.npy").shape[0] > 0
