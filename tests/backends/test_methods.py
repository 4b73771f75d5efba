"""The report's lines on weights that each method of a program stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

# 64 x 128, 128 x 128 and 128 x 32 numbers.
_WEIGHTS = 64 * 128 + 128 * 128 + 128 * 32


def report(name: str) -> dict[str, Any]:
    return json.loads(Path(f"tests/backends/methods_{name}.report.json").read_text())


@pytest.mark.parametrize(
    ("name", "backend", "bytes_per_number"),
    [("arm_tosa_fp", "TOSABackend", 4), ("arm_ethos_u85_int8", "EthosUBackend", 1)],
)
def test_weights_that_payloads_repeat(name: str, backend: str, bytes_per_number: int) -> None:
    (repeated,) = report(name)["duplicated"]
    assert repeated["backend"] == backend
    assert set(repeated["methods"]) == {"rows_1", "rows_4"}
    # A compressed weight has other headers in another method.
    assert 0.95 * bytes_per_number * _WEIGHTS < repeated["bytes"]
    assert repeated["bytes"] < min(repeated["methods"].values())
    assert report(name)["bytes"]["delegates"] == sum(repeated["methods"].values())


def test_estimates_of_vela() -> None:
    """Each delegate for Ethos-U has some; other backends' compilers estimate nothing."""
    found = report("arm_ethos_u85_int8")
    assert set(found["estimates"]) == {"rows_1", "rows_4"}
    for name, rows in (("rows_1", 1), ("rows_4", 4)):
        [delegate] = found["delegation"][name]["delegates"]
        estimate, total = delegate["estimate"], found["estimates"][name]
        assert estimate["accelerator"] == "Ethos_U85_256"
        assert estimate["macs"] == total["macs"] == rows * _WEIGHTS
        # As many at once as the accelerator has.
        assert total["macs"] / 256 < total["cycles"] == estimate["cycles"]
        assert estimate["seconds"] == pytest.approx(estimate["cycles"] / estimate["clock_hz"])
        assert estimate["on_chip_flash_bytes"] > 0.95 * _WEIGHTS
        # An input of 8 bits at least.
        assert rows * 64 <= estimate["sram_bytes"] < estimate["sram_read_write_bytes"]
    assert report("arm_tosa_fp")["estimates"] == report("xnnpack_fp32")["estimates"] == {}


def test_weights_that_methods_share() -> None:
    assert report("xnnpack_fp32")["duplicated"] == []
