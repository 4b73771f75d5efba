"""Inputs and outputs in all file formats."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.integration.runner.runner_process import PROGRAMS, run

TYPES = ["--program", PROGRAMS / "types.pte"]
XNNPACK = ["--program", PROGRAMS / "xnnpack.pte", "--data", PROGRAMS / "xnnpack.ptd"]
INPUTS = {
    "input_0": np.array([1, 2, 3], np.float32),
    "input_1": np.array([[1, 2], [3, 4]], np.float64),
    "input_2": np.array([1, -2, 3, -4], np.int32),
    "input_3": np.array([[1, -2, 3, -4, 2**40]], np.int64),
    "input_4": np.array([True, False, True]),
}
OUTPUTS = [
    INPUTS["input_0"] + np.float32([0.5, 1.5, 2.5]),
    *(2 * INPUTS[f"input_{n}"] for n in (1, 2, 3)),
    ~INPUTS["input_4"],
]


def in_one_file(folder: Path) -> list[str | Path]:
    save_file({"other": np.zeros(3), **INPUTS}, folder / "all.safetensors", {"format": "np"})
    return ["--input", folder / "all.safetensors"]


def by_names(folder: Path) -> list[str | Path]:
    path = folder / "odd:name.safetensors"
    save_file({f"my.{name}": value for name, value in INPUTS.items()}, path)
    return [word for name in INPUTS for word in ("--input", f"{path}:my.{name}")]


def as_bytes(folder: Path) -> list[str | Path]:
    words: list[str | Path] = []
    for name, value in INPUTS.items():
        (folder / f"{name}.bin").write_bytes(value.tobytes())
        words += ["--input", folder / f"{name}.bin"]
    return words


def mixed(folder: Path) -> list[str | Path]:
    words = as_bytes(folder)
    words[1] = f"{in_one_file(folder)[1]}:input_0"
    np.save(folder / "3.npy", INPUTS["input_3"])
    words[7] = folder / "3.npy"
    return words


@pytest.mark.parametrize("given", [in_one_file, by_names, as_bytes, mixed])
def test_inputs(given: Callable[[Path], list[str | Path]], tmp_path: Path) -> None:
    result = run(*TYPES, *given(tmp_path), "--output", tmp_path / "out")
    assert result.code == 0, result.error
    for number, expected in enumerate(OUTPUTS):
        got = np.load(tmp_path / f"out/output_{number}.npy")
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_outputs_as_safetensors(tmp_path: Path) -> None:
    options = [*in_one_file(tmp_path), "--output", tmp_path, "--output_format", "safetensors"]
    report = run(*TYPES, *options, "--json").report["programs"][0]
    assert report["outputs"] == [str(tmp_path / "outputs.safetensors")]
    got = load_file(tmp_path / "outputs.safetensors")
    assert list(got) == [f"output_{n}" for n in range(5)]
    for value, expected in zip(got.values(), OUTPUTS, strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_outputs_as_bytes(tmp_path: Path) -> None:
    options = [*in_one_file(tmp_path), "--output", tmp_path / "out", "--output_format", "raw"]
    assert run(*TYPES, *options).code == 0
    for number, expected in enumerate(OUTPUTS):
        assert (tmp_path / f"out/output_{number}.bin").read_bytes() == expected.tobytes()


def test_outputs_go_in_again(tmp_path: Path) -> None:
    """The next run reads the files that one run writes."""
    for kind, end in (("npy", ".npy"), ("raw", ".bin")):
        folder = tmp_path / kind
        out = ["--output", folder, "--output_format", kind]
        assert run(*TYPES, *in_one_file(tmp_path), *out).code == 0
        words = [w for n in range(5) for w in ("--input", folder / f"output_{n}{end}")]
        assert run(*TYPES, *words, "--output", folder).code == 0
        again = np.load(folder / "output_3.npy")
        np.testing.assert_array_equal(again, 2 * OUTPUTS[3])


def test_report_says_what_went_in_and_out(tmp_path: Path) -> None:
    report = run(*XNNPACK, "--repeat", "4", "--json").report
    (program,) = report["programs"]
    tensor = {"kind": "tensor", "dtype": "float32"}
    assert program["inputs"] == [{"name": "input_0", **tensor, "shape": [2, 16]}]
    assert program["output_values"] == [{"name": "output_0", **tensor, "shape": [2, 8]}]
    assert min(program["run_ms"]) <= program["median_run_ms"] <= max(program["run_ms"])
    assert report["peak_bytes"] >= program["memory_after_run"]["peak_bytes"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("short.bin", "short.bin has 127 bytes, expected 128: float32 (2, 16)"),
        ("x.safetensors", 'has no tensor "input_0"; available: y, z. Choose one with '),
        ("x.safetensors:a", 'has no tensor "a"; available: y, z.'),
        ("x.safetensors:y", "is float64 (2, 16), expected float32 (2, 16)"),
        ("none.safetensors:y", "none.safetensors cannot be opened: No such file"),
    ],
)
def test_inputs_that_do_not_fit(option: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(bytes(127))
    save_file({"y": np.zeros((2, 16)), "z": np.zeros(1)}, tmp_path / "x.safetensors", {"a": "b"})
    result = run(*XNNPACK, "--input", f"{tmp_path}/{option}")
    assert result.code == 1
    assert words in result.error


def test_output_formats() -> None:
    result = run(*XNNPACK, "--output_format", "csv")
    assert '--output_format is "csv", expected npy, safetensors or raw' in result.error


def with_header(header: Any, data: bytes = bytes(128)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [2, 16], "data_offsets": [0, 128]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is truncated"),
        (bytes(4), "it is truncated"),
        ((2**63).to_bytes(8, "little") + b"{}", "it is truncated, or does not start with"),
        (with_header(b"[]"), "its header cannot be read: it is not a JSON object"),
        (with_header(b"{"), "its header cannot be read: it is not JSON at byte"),
        (
            with_header({"input_0": ENTRY | {"dtype": "F8_E4M3"}}),
            "is F8_E4M3, expected one of float",
        ),
        (with_header({"input_0": ENTRY | {"dtype": 1}}), "expected one of float"),
        (
            with_header({"input_0": ENTRY | {"shape": [-2, -16]}}),
            "lacks a shape of at most 16 dimensions, or offsets",
        ),
        (with_header({"input_0": ENTRY | {"shape": [2**62, 2**62]}}), "data of another size"),
        (
            with_header({"input_0": ENTRY | {"data_offsets": [0]}}),
            "lacks a shape of at most 16 dimensions, or offsets",
        ),
        (with_header({"input_0": ENTRY | {"data_offsets": [128, 0]}}), "data outside of the file"),
        (with_header({"input_0": ENTRY | {"data_offsets": [4, 132]}}), "data outside of the file"),
        (with_header({"input_0": ENTRY}, bytes(127)), "data outside of the file"),
        (with_header({"input_0": []}), 'tensor "input_0" is described by no object'),
    ],
)
def test_damaged_safetensors(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header({"input_0": ENTRY}))
    assert run(*XNNPACK, "--input", path).code == 0
    path.write_bytes(content)
    result = run(*XNNPACK, "--input", path)
    assert result.code == 1
    assert words in result.error


def test_flipped_safetensors_never_crash(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    good = with_header({"input_0": ENTRY})
    generator = random.Random(0)
    for _ in range(150):
        changed = bytearray(good)
        changed[generator.randrange(len(good) - 128)] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        run(*XNNPACK, "--input", path)
