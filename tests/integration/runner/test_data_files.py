"""Data files at run time: priority of keys, and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.integration.runner.runner_process import contents, rewrite_data, run

Copied = Callable[[str], Path]


def output(folder: Path, *arguments: str | Path) -> np.ndarray:
    result = run(*arguments, "--output", folder)
    assert result.code == 0, result.error
    return np.load(folder / "output_0.npy")


def test_a_key_of_the_program_is_the_programs(copied: Copied, tmp_path: Path) -> None:
    program, data = copied("embedded"), copied("xnnpack").with_suffix(".ptd")
    expected = output(tmp_path / "alone", "--program", program)
    zeros = {key: bytes(len(value)) for key, value in contents(data).items()}
    separate = ["--program", copied("xnnpack"), "--data", data]
    np.testing.assert_array_equal(output(tmp_path / "separate", *separate), expected)
    rewrite_data(data, data, zeros)
    both = output(tmp_path / "both", "--program", program, "--data", data)
    np.testing.assert_array_equal(both, expected)
    assert not np.array_equal(output(tmp_path / "zeros", *separate), expected)


def test_a_small_program_takes_little_memory(copied: Copied) -> None:
    program = copied("xnnpack")
    arguments = ["--program", program, "--data", program.with_suffix(".ptd"), "--json"]
    memory = run(*arguments).report["programs"][0]["memory_after_run"]
    assert memory["peak_bytes"] < 25_000_000
    assert memory["anonymous_bytes"] < 3_000_000
